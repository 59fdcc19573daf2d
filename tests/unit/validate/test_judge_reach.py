"""Which outputs are tried from changed states: many, large ones, and what no pointer leads to."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from made_up_replays import BASE, COUNT, VARIANT, Bench, double, fill

from kerncap_stages.manifests.replay import ReplayOutcome
from kerncap_stages.manifests.validation import Coverage
from kerncap_stages.validate.arguments import CHUNK_BYTES
from kerncap_stages.validate.explorer import Limits
from kerncap_stages.validate.perturb.patterns import choose_samples
from kerncap_stages.validate.perturb.states import perturb
from kerncap_stages.validate.replays.replayer import Run


class ManyOutputs(Bench):
    """Twenty regions that hold what the kernel writes; the variant leaves one of them out."""

    left_out = None

    def _capture(self, before):
        capture = super()._capture(before)
        step = {i: {"base_address": BASE + i * 0x10000} for i in range(20)}
        regions = tuple(capture.regions[0].model_copy(update=step[i]) for i in range(20))
        addresses = b"".join(region.base_address.to_bytes(8, "little") for region in regions)
        kernel = capture.kernel.model_copy(update={"slots": ()})
        return capture.model_copy(update={"regions": regions, "kernel": kernel, "kernarg": addresses.hex()})

    def run(self, start, variant, _repeats=None):
        outputs = dict(start.pre_states)
        for i, base in enumerate(outputs):
            if variant is None or i != self.left_out:
                outputs[base] = self.capture.regions[i].post
        return Run(ReplayOutcome.COMPLETED, None, outputs)


@pytest.mark.parametrize("left_out", [3, 15, 16, 19, None])
def test_outputs_beyond_the_first_are_tried_together(store, left_out):
    bench = ManyOutputs(store, fill, fill, before=np.full(COUNT, 7, np.float32))
    bench.left_out = left_out
    verdict = bench.judge()
    assert verdict.passed is (left_out is None), verdict.reasons
    if left_out is None:
        assert verdict.coverage is Coverage.PERTURBED
        assert verdict.pre_states == 1 + 16 + 1
        assert not verdict.reasons


class BeyondSight(Bench):
    """A second region that no argument leads to; it holds what the kernel writes there, if it does."""

    PLACE = BASE + 0x100000
    written_by = (True, True)  # the captured kernel, the variant

    def _capture(self, before):
        capture = super()._capture(before)
        beyond = capture.regions[0].model_copy(
            update={"base_address": self.PLACE, "pre": self._put(np.full(COUNT, 3, np.float32))}
        )
        beyond = beyond.model_copy(update={"post": beyond.pre, "written": (), "written_size_bytes": 0})
        return capture.model_copy(update={"regions": (*capture.regions, beyond)})

    def run(self, start, variant, repeats=None):
        run = super().run(start, variant, repeats)
        is_written = self.written_by[variant is not None]
        beyond = self.capture.regions[1].post if is_written else start.capture.regions[1].pre
        return replace(run, outputs={**run.outputs, self.PLACE: beyond}) if run.completed else run


def test_an_output_that_no_pointer_leads_to_is_missed(store):
    bench = BeyondSight(store, double, double)
    verdict = bench.judge()
    assert verdict.passed
    assert verdict.pre_states == 3
    assert not verdict.reasons
    bench.written_by = (True, False)
    verdict = bench.judge()
    assert not verdict.passed
    assert "does not write it" in verdict.reasons[0]


def test_memory_that_the_kernel_does_not_reach_costs_one_replay_of_the_captured_kernel(store):
    bench = BeyondSight(store, double, double)
    bench.written_by = (False, False)
    verdict = bench.judge()
    assert (verdict.passed, verdict.pre_states) == (True, 3)
    assert sum(each != VARIANT for each in bench.replayed) == 2
    bench.keep()
    bench.replayed.clear()
    assert bench.judge().passed
    assert set(bench.replayed) == {VARIANT}


class BeyondSightInTurn(BeyondSight):
    """It counts the states that the variant runs from in each process."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.in_turn = []

    def run_in_turn(self, first, further, variant, repeats=None, **options):
        if variant is not None:
            self.in_turn.append(len({start.key for start in further}))
        return super().run_in_turn(first, further, variant, repeats, **options)


def test_later_verdicts_run_from_changed_memory_that_the_kernel_does_not_reach_in_the_same_process(store):
    bench = BeyondSightInTurn(store, double, double)
    bench.written_by = (False, False)
    assert bench.judge().passed
    bench.keep()
    bench.in_turn.clear()
    assert bench.judge().passed
    assert bench.in_turn == [2]  # the output changed, and the memory that is not reached


@pytest.mark.parametrize("seed", [None, 1])
def test_a_write_of_what_was_there_is_seen_in_memory_that_the_kernel_does_not_reach(store, seed):
    bench = BeyondSight(store, double, double)
    bench.written_by = (False, True)
    verdict = bench.judge(seed=seed)
    assert not verdict.passed
    assert "the variant writes where the captured kernel does not" in verdict.reasons


def test_what_is_too_much_to_be_changed_is_told(store):
    verdict = BeyondSight(store, double, double).judge(limits=Limits(unreached_bytes=4 * COUNT - 1))
    assert verdict.passed
    assert verdict.pre_states == 2
    assert "not perturbed: 1 region (256 B) not reachable from any known pointer" in verdict.reasons[0]


class LargeInput(Bench):
    """An argument leads to an input that is larger than the output, which holds its sum."""

    INPUT = BASE + 0x100000
    ELEMENTS = 2 * COUNT

    def _capture(self, before):
        capture = super()._capture(before)
        values = np.arange(self.ELEMENTS, dtype=np.float32)
        read = capture.regions[0].model_copy(
            update={"base_address": self.INPUT, "size_bytes": values.nbytes, "pre": self._put(values)}
        )
        read = read.model_copy(update={"post": read.pre, "written": (), "written_size_bytes": 0})
        slot = capture.kernel.slots[0]
        slots = (slot, slot.model_copy(update={"offset_bytes": 8, "name": "weights", "is_const": True}))
        kernel = capture.kernel.model_copy(
            update={"slots": slots, "demangled_name": "k(float*, float const*)"}
        )
        kernarg = BASE.to_bytes(8, "little") + self.INPUT.to_bytes(8, "little") + bytes(512)
        changes = {"regions": (*capture.regions, read), "kernel": kernel, "kernarg": kernarg.hex()}
        return capture.model_copy(update=changes)

    def run(self, start, variant, repeats=None):
        run = super().run(start, variant, repeats)
        states = {each.base_address: each.pre for each in start.capture.regions}
        output = run.outputs[BASE]
        if variant is None:
            values = self.store.read_memory(states[self.INPUT].digest).view(np.float32)
            output = self._put(np.full(COUNT, self.sum(values), np.float32))
        return replace(run, outputs={**run.outputs, BASE: output, self.INPUT: states[self.INPUT]})

    def sum(self, values):
        return values.sum()


def give_captured_sum(values):
    values[:] = np.arange(2 * COUNT, dtype=np.float32).sum()


@pytest.mark.parametrize(("fits", "passes"), [(12 * COUNT, False), (8 * COUNT, False), (8 * COUNT - 1, True)])
def test_an_input_gets_fresh_values_before_the_output_does(store, fits, passes):
    """The variant knows the result for the captured input. Without room for that, the verdict says so."""
    bench = LargeInput(store, give_captured_sum, give_captured_sum)
    verdict = bench.judge(seed=1, limits=Limits(fresh_bytes=fits))
    assert verdict.passed is passes, verdict.reasons
    assert verdict.inputs_kept is passes
    told = [
        each for each in verdict.reasons if each.startswith("too large for fresh values (512 B): weights")
    ]
    assert bool(told) is passes


class InputOfFourChunks(LargeInput):
    ELEMENTS = 4 * CHUNK_BYTES // 4


class InputThatIsHardlyRead(InputOfFourChunks):
    def sum(self, values):
        return values[-3:].sum()


class HardlyReadBesideOthers(InputThatIsHardlyRead):
    """Another input is small, and is read: its fresh values change the output."""

    SMALL = LargeInput.INPUT + 0x1000000

    def _capture(self, before):
        capture = super()._capture(before)
        small = np.ones(COUNT, np.float32)
        read = capture.regions[1].model_copy(
            update={"base_address": self.SMALL, "size_bytes": small.nbytes, "pre": self._put(small)}
        )
        read = read.model_copy(update={"post": read.pre})
        slots = capture.kernel.slots
        further = slots[1].model_copy(update={"offset_bytes": 16, "name": "bias"})
        kernel = capture.kernel.model_copy(
            update={
                "slots": (*slots, further),
                "demangled_name": "k(float*, float const*, float const*)",
            }
        )
        kernarg = capture.kernarg[:32] + self.SMALL.to_bytes(8, "little").hex() + capture.kernarg[48:]
        changes = {"regions": (*capture.regions, read), "kernel": kernel, "kernarg": kernarg}
        return capture.model_copy(update=changes)

    def run(self, start, variant, repeats=None):
        """The variant knows what the large input gives, and reads the small one."""
        run = super().run(start, None, repeats)
        states = {each.base_address: each.pre for each in start.capture.regions}
        small = self.store.read_memory(states[self.SMALL].digest).view(np.float32)
        large = self.store.read_memory(states[self.INPUT].digest).view(np.float32)
        known = np.arange(self.ELEMENTS, dtype=np.float32) if variant is not None else large
        output = self._put(np.full(COUNT, self.sum(known) + small[0] - 1, np.float32))
        return replace(run, outputs={**run.outputs, BASE: output, self.SMALL: states[self.SMALL]})


def know_result(bench):
    """Return what writes the result for the captured input."""
    result = bench.sum(bench, np.arange(bench.ELEMENTS, dtype=np.float32))
    return lambda values: values.fill(result)


@pytest.mark.parametrize("seed", range(5))
def test_of_an_input_that_is_too_large_parts_get_fresh_values(store, seed):
    knows = know_result(InputOfFourChunks)
    bench = InputOfFourChunks(store, knows, knows)
    verdict = bench.judge(seed=seed, limits=Limits(fresh_bytes=2 * CHUNK_BYTES))
    assert not verdict.passed
    assert not verdict.inputs_kept
    bench.run = lambda start, _, repeats=None: InputOfFourChunks.run(bench, start, None, repeats)
    verdict = bench.judge(seed=seed, limits=Limits(fresh_bytes=2 * CHUNK_BYTES))
    assert verdict.passed
    assert not verdict.inputs_kept
    (told,) = (each for each in verdict.reasons if "too large for fresh values everywhere (4.00 MiB)" in each)
    assert "weights (float const*); of that, 1.00 MiB have them" in told


@pytest.mark.parametrize("kind", [InputThatIsHardlyRead, HardlyReadBesideOthers])
def test_parts_that_the_kernel_does_not_read_are_told(store, kind):
    """Such a PASS is not full: the variant knows the result for the captured input."""
    knows = know_result(kind)
    bench = kind(store, knows, knows)
    verdict = bench.judge(seed=1, limits=Limits(fresh_bytes=2 * CHUNK_BYTES))
    assert verdict.passed
    assert verdict.inputs_kept
    told = "fresh values in parts of weights (float const*) change no output"
    assert any(each.startswith(told) for each in verdict.reasons), verdict.reasons


def test_no_replay_is_made_twice_to_see_whether_parts_are_read(store):
    """All fresh values are in one region, so the first state shows already what they change."""

    def double_last(values):
        values[-3:] *= 2

    bench = Bench(store, double_last, double_last, before=np.arange(CHUNK_BYTES, dtype=np.float32))
    written = {"written": ((4 * CHUNK_BYTES - 12, 12),), "written_size_bytes": 12}
    region = bench.capture.regions[0].model_copy(update=written)
    bench.capture = bench.capture.model_copy(update={"regions": (region,)})
    starts, run = [], bench.run

    def record(start, variant, repeats=None):
        starts.extend([start.key] if variant is None and start.is_fresh else [])
        return run(start, variant, repeats)

    bench.run = record
    verdict = bench.judge(seed=1, limits=Limits(fresh_bytes=2 * CHUNK_BYTES))
    assert any("of that, 1.00 MiB have them" in each for each in verdict.reasons), verdict.reasons
    assert starts
    assert len(starts) == len(set(starts))


def test_memory_that_is_changed_in_place_and_too_large_is_named(store):
    """The PASS is not full, so its remarks say why."""
    verdict = Bench(store, double, double).judge(seed=1, limits=Limits(fresh_bytes=4 * COUNT - 1))
    assert verdict.passed
    assert verdict.inputs_kept
    assert any(each.startswith("too large for fresh values (256 B): data") for each in verdict.reasons)


def test_of_a_large_output_samples_are_tried(store):
    limits = Limits(region_bytes=8)
    done = np.full(COUNT, 7, np.float32)
    verdict = Bench(store, fill, fill, before=done).judge(limits=limits)
    assert verdict.passed
    assert verdict.coverage is not Coverage.PERTURBED
    assert "too large" in verdict.reasons[0]
    assert not Bench(store, fill, lambda _: None, before=done).judge(limits=limits).passed


@pytest.mark.parametrize("size", [1, 5 << 20, (2 << 30) + 12345])
def test_samples_are_apart_and_reach_from_end_to_end(size):
    known = [(0, 1), (size // 2, 1)]
    found = choose_samples(size, known)
    assert found[0][0] == 0
    assert found[-1][0] + found[-1][1] == size
    assert all(a + length < b for (a, length), (b, _) in pairwise(found))
    assert all(any(a <= at < a + length for a, length in found) for at, _ in known)
    assert sum(length for _, length in found) <= min(size, 66 << 20)


class TwoBeyondSight(BeyondSight):
    """Two regions that no argument leads to."""

    def _capture(self, before):
        capture = super()._capture(before)
        second = capture.regions[1].model_copy(update={"base_address": self.PLACE + 0x100000})
        return capture.model_copy(update={"regions": (*capture.regions, second)})

    def run(self, start, variant, repeats=None):
        run = super().run(start, variant, repeats)
        second = start.capture.regions[2]
        return replace(run, outputs={**run.outputs, second.base_address: second.pre})


def test_regions_that_are_changed_together_are_changed_once_for_all_verdicts(store, monkeypatch):
    made = []

    def count(store, transaction, trial, *more):
        made.append(trial.region.base_address)
        return perturb(store, transaction, trial, *more)

    monkeypatch.setattr("kerncap_stages.validate.perturb.start.perturb", count)
    bench = TwoBeyondSight(store, double, double)
    assert bench.judge().passed
    together = {bench.PLACE, bench.PLACE + 0x100000}
    assert together <= set(made)
    (kept,) = (each for each in bench.baselines.kept if each.perturbed)
    assert kept.pre_states.keys() == together
    bench.keep()
    made.clear()
    assert bench.judge().passed
    assert not together & set(made)
