"""The judge's rules on made-up replays: what a kernel did is a function of the state before."""

from __future__ import annotations

import threading
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from manifest_examples import capture as example_capture

from kerncap_stages.bounds import Bounds
from kerncap_stages.digest import Digest, MemoryRef
from kerncap_stages.manifests.memory import MemoryKind
from kerncap_stages.manifests.replay import ReplayOutcome
from kerncap_stages.manifests.validation import Coverage, Mode
from kerncap_stages.store import Store
from kerncap_stages.validation import changed_states as changed_states_module
from kerncap_stages.validation import judge as judge_module
from kerncap_stages.validation import runs as runs_module
from kerncap_stages.validation.judge import Judge
from kerncap_stages.validation.runs import Baselines, Run
from kerncap_stages.validation.samples import sampled
from kerncap_stages.validation.settings import Settings

BASE = 0x7F0000000000
COUNT = 64
VARIANT = Path("/variant")


@pytest.fixture
def store(tmp_path):
    return Store.open(tmp_path / "store")


class Bench:
    """Replays kernels that are Python functions from float32[COUNT] to the same, in place."""

    def __init__(self, store, monkeypatch, baseline, variant=None, before=None):
        self.store, self.kernels, self.replayed = store, {False: baseline, True: variant}, []
        start = np.arange(COUNT, dtype=np.float32) if before is None else before
        self.capture = self._capture(start)
        monkeypatch.setattr(judge_module, "run_once", self.run_once)
        monkeypatch.setattr(runs_module, "run_once", self.run_once)

    def _put(self, values):
        with self.store.transaction() as transaction:
            made = MemoryRef.to(transaction.put_memory(values))
            transaction.publish_objects()
        return made

    def _capture(self, before):
        after = before.copy()
        self.kernels[False](after)
        example = example_capture()
        changed = (before != after).any()
        region = example.regions[0].model_copy(
            update={
                "base_address": BASE,
                "size_bytes": before.nbytes,
                "pre": self._put(before),
                "post": self._put(after),
                "written": ((0, before.nbytes),) if changed else (),
                "written_size_bytes": before.nbytes if changed else 0,
                "read_only": False,
                "left_out_reason": None,
            }
        )
        slot = example.kernel.slots[0].model_copy(update={"offset_bytes": 0, "size_bytes": 8, "name": "data"})
        kernel = example.kernel.model_copy(update={"slots": (slot,), "demangled_name": "k(float*)"})
        kernarg = BASE.to_bytes(8, "little").hex() + "00" * 512
        return example.model_copy(
            update={"regions": (region,), "kernel": kernel, "kernarg": kernarg, "module_variables": ()}
        )

    def run_once(self, store, capture, variant, *_, repeats=None, **__):
        self.replayed.append(variant)
        before = store.read_memory(capture.regions[0].pre.digest).view(np.float32)
        states = []
        try:
            for _ in range(1 + (repeats.count if repeats else 0)):
                values = before.copy()
                self.kernels[variant is not None](values)
                states.append({BASE: self._put(values)})
        except ValueError as error:
            return Run(ReplayOutcome.FAULTED, str(error), {})
        differing = [state for state in states[1:] if state != states[0]]
        return Run(
            ReplayOutcome.COMPLETED,
            None,
            states[0],
            further_runs=len(states) - 1,
            differing_runs=len(differing),
            differing=tuple(differing[: repeats.kept if repeats else 0]),
        )

    def judge(self, variant=VARIANT, **settings):
        self.baselines = Baselines(self.store, self.capture, Digest("0" * 64), "machine", 10.0)
        return Judge(self.store, self.capture, None, Settings(**settings), self.baselines).judge(variant)


def double(values):
    values *= 2


def fill(values):
    values[:] = 7


def test_in_place_work_is_compared_from_several_states(store, monkeypatch):
    verdict = Bench(store, monkeypatch, double, double).judge()
    assert verdict.passed
    assert verdict.pre_states == 2
    assert verdict.coverage.value == "perturbed"


def test_a_variant_that_only_knows_the_captured_answer_fails(store, monkeypatch):
    answer = 2 * np.arange(COUNT, dtype=np.float32)

    def cheat(values):
        values[:] = answer

    assert not Bench(store, monkeypatch, double, cheat).judge().passed


@pytest.mark.parametrize("bounds", [Bounds(), Bounds(ulp=1), Bounds(atol=1e-3), Bounds(rtol=1e-3)])
def test_doing_nothing_where_nothing_changed_fails_under_any_bounds(store, monkeypatch, bounds):
    done = np.full(COUNT, 7, np.float32)
    bench = Bench(store, monkeypatch, fill, lambda _: None, before=done)
    verdict = bench.judge(bounds=bounds)
    assert not verdict.passed
    assert "not written" in verdict.reasons[0]
    assert Bench(store, monkeypatch, fill, fill, before=done).judge(bounds=bounds).passed


def test_within_a_bound_on_a_repeated_dispatch_is_no_stray_write(store, monkeypatch):
    done = np.full(COUNT, 7, np.float32)

    def nearly(values):
        values[:] = np.nextafter(np.float32(7), np.float32(8))

    assert Bench(store, monkeypatch, fill, nearly, before=done).judge(bounds=Bounds(ulp=1)).passed
    verdict = Bench(store, monkeypatch, fill, nearly, before=done).judge()
    assert not verdict.passed
    assert not any("does not" in reason for reason in verdict.reasons)


def test_an_absolute_bound_holds_also_from_changed_states(store, monkeypatch):
    def nearly(values):
        values *= 2
        values += np.float32(0.9e-3)

    large = np.linspace(1, 2, COUNT, dtype=np.float32)
    assert Bench(store, monkeypatch, double, nearly, before=large).judge(bounds=Bounds(atol=1e-3)).passed


def test_a_baseline_that_bears_no_change_is_said_to(store, monkeypatch):
    start = np.arange(COUNT, dtype=np.float32)

    def careful(values):
        if not np.array_equal(values, start):
            raise ValueError("out of bounds")
        values *= 2

    verdict = Bench(store, monkeypatch, careful, double).judge()
    assert verdict.passed
    assert verdict.coverage.value == "difference"
    assert "could not be tried" in verdict.reasons[0]


def test_a_faulting_variant_fails_with_its_words(store, monkeypatch):
    def fault(_):
        raise ValueError("page fault at 0x10")

    verdict = Bench(store, monkeypatch, double, fault).judge()
    assert not verdict.passed
    assert "faulted: page fault at 0x10" in verdict.reasons[0]


def test_a_baseline_that_is_not_deterministic_is_reported_not_punished(store, monkeypatch):
    rounds = iter(range(100))

    def unsteady(values):
        values[:] = np.float32(next(rounds))

    verdict = Bench(store, monkeypatch, unsteady).judge(variant=None)
    assert verdict.mode is Mode.BASELINE
    assert verdict.passed
    assert verdict.nondeterministic_bytes > 0
    assert "not deterministic" in verdict.reasons[0]
    bench = Bench(store, monkeypatch, unsteady, fill)
    verdict = bench.judge()
    assert not verdict.passed
    assert any("with a tolerance" in reason for reason in verdict.reasons)


@pytest.mark.parametrize(
    ("left", "passed", "runs"),
    [
        ([5, 1, 1, 1, 2, 9], True, 4),  # the dispatch in the program, then the replays
        ([5, 1, 1, 5, 9], True, 3),
        ([5, 5, 5, 9], True, 2),
        ([5, 1], False, 8),
    ],
)
def test_replays_that_agree_by_chance_are_not_held_against_the_golden_state(
    store, monkeypatch, left, passed, runs
):
    values = iter(left)

    def unsteady(memory):
        memory[:] = np.float32(next(values, left[-1]))

    verdict = Bench(store, monkeypatch, unsteady).judge(variant=None)
    assert (verdict.passed, verdict.baseline_runs) == (passed, runs)


def test_a_replay_that_leaves_a_region_out_is_no_pass(store, monkeypatch):
    bench = Bench(store, monkeypatch, double, double)
    monkeypatch.setattr(judge_module, "run_once", lambda *_, **__: Run(ReplayOutcome.COMPLETED, None, {}))
    verdict = bench.judge()
    assert not verdict.passed
    assert "no state of region" in verdict.reasons[0]


@pytest.fixture
def known(monkeypatch):
    """The baseline's replays, known to later judges as if a validation had kept them."""
    kept = []
    monkeypatch.setattr(
        Baselines, "_known", lambda _, key: next((each for each in kept if each.key == key), None)
    )
    return kept


def test_a_later_edit_is_replayed_from_both_states_at_the_same_time(store, monkeypatch, known):
    together = threading.Barrier(2)

    def later(values):
        together.wait(timeout=60)  # broken unless the other replay comes while this one waits
        values *= 2

    bench = Bench(store, monkeypatch, double, double)
    assert bench.judge(variant_runs=1).passed
    known += bench.baselines.kept
    assert bench.replayed.count(VARIANT) == 2
    bench.kernels[True] = later
    judgement = bench.judge(variant_runs=1)
    assert judgement.passed
    assert judgement.pre_states == 2
    assert bench.replayed.count(VARIANT) == 4


@pytest.mark.parametrize("software", [False, True])
def test_the_first_edit_is_replayed_beside_the_captured_kernel(store, monkeypatch, software):
    all_three = threading.Barrier(3)

    def together(values):
        # On the software GPU the captured kernel comes first, then the variant from each state by itself.
        if not software:
            all_three.wait(timeout=60)
        values *= 2

    bench = Bench(store, monkeypatch, double, together)
    device = bench.capture.environment.devices[0].model_copy(update={"software": software})
    environment = bench.capture.environment.model_copy(update={"devices": (device,)})
    bench.capture = bench.capture.model_copy(update={"environment": environment})
    bench.kernels[False] = together
    judgement = bench.judge(variant_runs=1)
    assert judgement.passed
    assert judgement.pre_states == 2
    assert sorted(map(str, bench.replayed)) == ["/variant", "/variant", "None"]
    assert len(bench.baselines.kept) == 1


def test_a_replay_that_was_begun_and_took_too_long_is_made_again(store, monkeypatch):
    bench = Bench(store, monkeypatch, double, double)
    replays = iter([Run(ReplayOutcome.TIMED_OUT, "slow", {})])
    monkeypatch.setattr(
        runs_module, "run_once", lambda *words, **more: next(replays, None) or bench.run_once(*words, **more)
    )
    judgement = bench.judge()
    assert judgement.passed
    assert judgement.pre_states == 2
    assert [kept.outcome for kept in bench.baselines.kept] == [ReplayOutcome.COMPLETED]


@pytest.mark.parametrize("is_wrong", [False, True])
def test_a_fault_of_a_replay_that_was_begun_ahead_is_no_answer_yet(store, monkeypatch, known, is_wrong):
    def faults_at_first(values):
        values *= 2
        if values[0] != 0 and (is_wrong or not faulted):
            faulted.append(True)
            raise ValueError("no memory for two at once")

    faulted = []
    bench = Bench(store, monkeypatch, double, double)
    assert bench.judge().passed
    known += bench.baselines.kept
    bench.kernels[True] = faults_at_first
    assert bench.judge().passed is not is_wrong
    assert len(faulted) == (2 if is_wrong else 1)


@pytest.mark.parametrize(
    ("baseline_too", "passes"), [((), False), (((0x1000, 4),), False), (((0x1000, 64),), True)]
)
def test_what_a_variant_writes_outside_of_captured_memory_fails_it(store, monkeypatch, baseline_too, passes):
    bench = Bench(store, monkeypatch, double, double)

    def with_outside(*words, **more):
        outside = baseline_too if words[2] is None else ((0x1000, 8), (0x1020, 4))
        return replace(bench.run_once(*words, **more), outside=outside)

    monkeypatch.setattr(judge_module, "run_once", with_outside)
    verdict = bench.judge()
    assert verdict.passed is passes
    assert passes or "outside of all captured memory" in verdict.reasons[0]


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

    def run_once(self, store, capture, variant, *words, **more):
        run = super().run_once(store, capture, variant, *words, **more)
        host = capture.regions[1].pre
        if variant is not None and self.touch is not None:
            host = self.touch
        return replace(run, outputs={**run.outputs, self.HOST: host}) if run.completed else run


def test_what_the_host_wrote_meanwhile_is_no_output(store, monkeypatch):
    bench = WithHostMemory(store, monkeypatch, double, double)
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


def test_a_kernel_that_writes_host_memory_has_to_write_it(store, monkeypatch):
    class Writes(WithHostMemory):
        def run_once(self, store, capture, variant, *words, **more):
            run = super().run_once(store, capture, variant, *words, **more)
            post = self.capture.regions[1].post if variant is None else capture.regions[1].pre
            return replace(run, outputs={**run.outputs, self.HOST: post})

    assert not Writes(store, monkeypatch, double, double).judge().passed


def test_a_block_in_which_the_program_and_the_kernel_write_is_told_apart_by_lines_of_the_caches(
    store, monkeypatch
):
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

        def run_once(self, store, capture, variant, *words, **more):
            run = super().run_once(store, capture, variant, *words, **more)
            wrong = None if variant is None else self.wrong
            return replace(run, outputs={**run.outputs, self.HOST: self.left(kernel=True, wrong=wrong)})

    bench = Shared(store, monkeypatch, double, double)
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


def test_a_kernel_whose_replay_changes_nothing_at_all_is_not_right(store, monkeypatch):
    """All that the capture holds may be the program's own, or what the kernel does once a flag is set."""
    bench = WithHostMemory(store, monkeypatch, lambda _: None, lambda _: None)
    for variant in (VARIANT, None):
        verdict = bench.judge(variant)
        assert not verdict.passed
        assert any("change nothing at all" in reason for reason in verdict.reasons)


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

    def run_once(self, _store, capture, variant, *_, **__):
        outputs = {region.base_address: region.pre for region in capture.regions}
        for i, base in enumerate(outputs):
            if variant is None or i != self.left_out:
                outputs[base] = self.capture.regions[i].post
        return Run(ReplayOutcome.COMPLETED, None, outputs)


@pytest.mark.parametrize("left_out", [3, 15, 16, 19, None])
def test_outputs_beyond_the_first_are_tried_together(store, monkeypatch, left_out):
    bench = ManyOutputs(store, monkeypatch, fill, fill, before=np.full(COUNT, 7, np.float32))
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

    def run_once(self, store, capture, variant, *words, **more):
        run = super().run_once(store, capture, variant, *words, **more)
        is_written = self.written_by[variant is not None]
        beyond = self.capture.regions[1].post if is_written else capture.regions[1].pre
        return replace(run, outputs={**run.outputs, self.PLACE: beyond}) if run.completed else run


def test_an_output_that_no_pointer_leads_to_is_missed(store, monkeypatch):
    bench = BeyondSight(store, monkeypatch, double, double)
    verdict = bench.judge()
    assert verdict.passed
    assert verdict.pre_states == 3
    assert not verdict.reasons
    bench.written_by = (True, False)
    verdict = bench.judge()
    assert not verdict.passed
    assert "not written" in verdict.reasons[0]


def test_memory_that_the_kernel_does_not_reach_costs_one_replay_of_the_captured_kernel(
    store, monkeypatch, known
):
    bench = BeyondSight(store, monkeypatch, double, double)
    bench.written_by = (False, False)
    verdict = bench.judge()
    assert (verdict.passed, verdict.pre_states, len(bench.replayed)) == (True, 2, 4)
    known += bench.baselines.kept
    bench.replayed.clear()
    assert bench.judge().passed
    assert bench.replayed == [VARIANT, VARIANT]


def test_what_is_too_much_to_be_changed_is_told(store, monkeypatch):
    monkeypatch.setattr(changed_states_module, "MOST_UNREACHED_BYTES", 4 * COUNT - 1)
    verdict = BeyondSight(store, monkeypatch, double, double).judge()
    assert verdict.passed
    assert verdict.pre_states == 2
    assert "1 regions (0.0 GiB) that no pointer in sight leads to were not tried" in verdict.reasons[0]


def test_of_a_large_output_samples_are_tried(store, monkeypatch):
    monkeypatch.setattr(changed_states_module, "MOST_BYTES", 8)
    done = np.full(COUNT, 7, np.float32)
    verdict = Bench(store, monkeypatch, fill, fill, before=done).judge()
    assert verdict.passed
    assert verdict.coverage is not Coverage.PERTURBED
    assert "too large" in verdict.reasons[0]
    assert not Bench(store, monkeypatch, fill, lambda _: None, before=done).judge().passed


@pytest.mark.parametrize("size", [1, 5 << 20, (2 << 30) + 12345])
def test_samples_are_apart_and_reach_from_end_to_end(size):
    known = [(0, 1), (size // 2, 1)]
    found = sampled(size, known)
    assert found[0][0] == 0
    assert found[-1][0] + found[-1][1] == size
    assert all(a + length < b for (a, length), (b, _) in pairwise(found))
    assert all(any(a <= at < a + length for a, length in found) for at, _ in known)
    assert sum(length for _, length in found) <= min(size, 66 << 20)


def every(period, wrong, right=double):
    """A kernel of which each so-manieth call is another one."""
    calls = iter(range(1, 1 << 30))

    def kernel(values):
        (wrong if next(calls) % period == 0 else right)(values)

    return kernel


def test_a_variant_that_is_wrong_now_and_then_fails(store, monkeypatch):
    verdict = Bench(store, monkeypatch, double, every(10, fill)).judge(perturb=False)
    assert not verdict.passed
    assert any(reason.startswith("not deterministic: 3 of 31 further runs") for reason in verdict.reasons)
    assert any("outputs differ" in reason or "wholly wrong" in reason for reason in verdict.reasons)


def test_a_variant_that_is_right_in_its_first_run_fails_also_where_nothing_changed(store, monkeypatch):
    def only_once():
        calls = iter(range(1 << 30))
        return lambda values: None if next(calls) else fill(values)

    done = np.full(COUNT, 7, np.float32)
    assert not Bench(store, monkeypatch, double, every(2, fill)).judge().passed
    bench = Bench(store, monkeypatch, fill, before=done)
    run_once = bench.run_once

    one_at_a_time = threading.Lock()

    def in_a_process_of_its_own(store, capture, variant, *words, **named):
        with one_at_a_time:
            bench.kernels[True] = only_once()
            return run_once(store, capture, variant, *words, **named)

    monkeypatch.setattr(judge_module, "run_once", in_a_process_of_its_own)
    verdict = bench.judge()
    assert not verdict.passed
    assert any("1 of 1 further runs" in reason for reason in verdict.reasons)
    assert bench.judge(variant_runs=1).passed


def test_what_the_captured_kernel_does_not_leave_the_same_either_is_only_told(store, monkeypatch):
    verdict = Bench(store, monkeypatch, every(2, fill), every(3, fill)).judge(perturb=False)
    assert verdict.passed
    assert any("the captured kernel has it too" in reason for reason in verdict.reasons)


def test_runs_that_differ_within_the_bounds_pass_and_are_told(store, monkeypatch):
    def nearly(values):
        values *= np.float32(2 + 1e-6)

    for variant, passes in ((every(2, nearly), True), (every(2, fill), False)):
        verdict = Bench(store, monkeypatch, double, variant).judge(bounds=Bounds(rtol=1e-5))
        assert verdict.passed is passes
        assert any(reason.startswith("not deterministic") for reason in verdict.reasons)


def test_a_steady_variant_says_how_often_it_ran(store, monkeypatch):
    verdict = Bench(store, monkeypatch, double, double).judge(variant_runs=5)
    assert verdict.passed
    assert not verdict.reasons
    assert verdict.variant_runs == 5
