"""Memory that the program's own threads write while the captured kernel runs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from made_up_replays import BASE, COUNT, VARIANT, Bench, double

from kerncap_stages.manifests.memory import MemoryKind


class WithHostMemory(Bench):
    """The same beside pinned memory that the program changed while the captured kernel ran."""

    HOST = BASE - 0x100000
    touch = None  # what the variant does to it

    def _capture(self, before):
        capture = super()._capture(before)
        self.before, after = self._put(np.zeros(COUNT, np.float32)), self._put(np.ones(COUNT, np.float32))
        host = capture.regions[0].model_copy(
            update={
                "base_address": self.HOST,
                "kind": MemoryKind.HOST_PINNED,
                "device_index": None,
                "pre": self.before,
                "post": after,
                "written": ((0, 4 * COUNT),),
                "written_size_bytes": 4 * COUNT,
            }
        )
        return capture.model_copy(update={"regions": (*capture.regions, host)})

    def run(self, start, variant, repeats=None):
        run = super().run(start, variant, repeats)
        host = start.capture.regions[1].pre
        if variant is not None and self.touch is not None:
            host = self.touch
        return replace(run, outputs={**run.outputs, self.HOST: host}) if run.completed else run


def test_what_the_host_wrote_meanwhile_is_no_output(store):
    bench = WithHostMemory(store, double, double)
    for variant in (VARIANT, None):
        verdict = bench.judge(variant)
        assert verdict.passed, verdict.reasons
        assert any("changed by the program itself" in reason for reason in verdict.reasons)
    assert bench.replayed.count(None) < 8  # it is no reason to doubt that the kernel is deterministic
    # A variant that writes there is wrong, whatever it writes.
    bench.touch = bench._put(np.full(COUNT, 2, np.float32))
    assert not bench.judge().passed
    bench.touch = bench.capture.regions[1].post
    assert not bench.judge().passed


def test_a_kernel_that_writes_host_memory_has_to_write_it(store):
    class Writes(WithHostMemory):
        def run(self, start, variant, repeats=None):
            run = super().run(start, variant, repeats)
            post = self.capture.regions[1].post if variant is None else start.capture.regions[1].pre
            return replace(run, outputs={**run.outputs, self.HOST: post})

    assert not Writes(store, double, double).judge().passed


def test_a_block_in_which_the_program_and_the_kernel_write_is_told_apart_by_lines_of_the_caches(store):
    """Words 0 to 15 are the kernel's, 32 to 47 a loader's, of pinned memory that holds 64."""

    class Shared(WithHostMemory):
        wrong = None  # a word that the variant gets wrong

        def _capture(self, before):
            capture = super()._capture(before)
            host = capture.regions[1].model_copy(update={"post": self.left(kernel=True, loader=True)})
            return capture.model_copy(update={"regions": (capture.regions[0], host)})

        def left(self, *, kernel, loader=False, wrong=None):
            words = np.zeros(COUNT, np.float32)
            words[:16] += kernel
            words[32:48] += 2 * loader
            if wrong is not None:
                words[wrong] = 3
            return self._put(words)

        def run(self, start, variant, repeats=None):
            run = super().run(start, variant, repeats)
            wrong = None if variant is None else self.wrong
            return replace(run, outputs={**run.outputs, self.HOST: self.left(kernel=True, wrong=wrong)})

    bench = Shared(store, double, double)
    for variant in (VARIANT, None):
        verdict = bench.judge(variant)
        assert verdict.passed, verdict.reasons
        assert any("16 bytes of region" in reason for reason in verdict.reasons), verdict.reasons
    assert bench.replayed.count(None) < 8
    for bench.wrong in (3, 20, 40):
        assert not bench.judge().passed
    # Outputs are in managed memory, too: what a kernel leaves out there is missing.
    bench.wrong = None
    managed = bench.capture.regions[1].model_copy(update={"kind": MemoryKind.MANAGED})
    bench.capture = bench.capture.model_copy(update={"regions": (bench.capture.regions[0], managed)})
    assert not bench.judge(None).passed


def test_a_kernel_whose_replay_changes_nothing_at_all_is_not_right(store):
    """All that the capture holds may be the program's own, or what the kernel does once a flag is set."""
    bench = WithHostMemory(store, lambda _: None, lambda _: None)
    for variant in (VARIANT, None):
        verdict = bench.judge(variant)
        assert not verdict.passed
        assert any("replays of the captured kernel change nothing" in reason for reason in verdict.reasons)
