"""Replays that are begun before it is known whether they are needed, and those that are kept."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import pytest
from made_up_replays import VARIANT, Bench, choose_device, double

from kerncap_stages.manifests.replay import ReplayOutcome
from kerncap_stages.validate.perturb.start import Start
from kerncap_stages.validate.replays.replayer import Run
from kerncap_stages.validate.replays.speculation import NO_NEIGHBOURS, Neighbours, Speculation


def test_a_later_edit_is_replayed_from_both_states_at_the_same_time(store):
    together = threading.Barrier(2)

    def later(values):
        together.wait(timeout=60)  # broken unless the other replay comes while this one waits
        values *= 2

    bench = Bench(store, double, double)
    assert bench.judge(variant_runs=1).passed
    bench.keep()
    assert bench.replayed.count(VARIANT) == 2
    bench.kernels[True] = later
    judgement = bench.judge(variant_runs=1)
    assert judgement.passed
    assert judgement.pre_states == 2
    assert bench.replayed.count(VARIANT) == 4


@pytest.mark.parametrize("software", [False, True])
def test_the_first_edit_is_replayed_beside_the_captured_kernel(store, software):
    all_three = threading.Barrier(3)

    def together(values):
        # On the software GPU the captured kernel comes first, then the variant from each state by itself.
        if not software:
            all_three.wait(timeout=60)
        values *= 2

    bench = choose_device(Bench(store, double, together), software=software)
    bench.kernels[False] = together
    judgement = bench.judge(variant_runs=1)
    assert judgement.passed
    assert judgement.pre_states == 2
    assert sorted(map(str, bench.replayed)) == ["/variant", "/variant", "None"]
    assert len(bench.baselines.kept) == 1


def test_a_replay_that_was_begun_and_took_too_long_is_made_again(store):
    bench = Bench(store, double, double)
    replays = iter([Run(ReplayOutcome.TIMED_OUT, "slow", {})])
    run = bench.run

    def slow_at_first(start, variant, repeats=None):
        return (None if variant else next(replays, None)) or run(start, variant, repeats)

    bench.run = slow_at_first
    judgement = bench.judge()
    assert judgement.passed
    assert judgement.pre_states == 2
    assert [kept.outcome for kept in bench.baselines.kept] == [ReplayOutcome.COMPLETED]


@pytest.mark.parametrize("is_wrong", [False, True])
def test_a_fault_of_a_replay_that_was_begun_ahead_is_no_answer_yet(store, is_wrong):
    def faults_at_first(values):
        values *= 2
        if values[0] != 0 and (is_wrong or not faulted):
            faulted.append(True)
            raise ValueError("no memory for two at once")

    faulted = []
    bench = Bench(store, double, double)
    assert bench.judge().passed
    bench.keep()
    bench.kernels[True] = faults_at_first
    assert bench.judge().passed is not is_wrong
    assert len(faulted) == (2 if is_wrong else 1)


class InProcesses(Bench):
    """The variant keeps its variables within a process: ``kernels[True]`` makes a new one for each."""

    def __init__(self, store, baseline, make_variant):
        super().__init__(store, baseline)
        self.make_variant, self.in_turn = make_variant, []
        # Nothing is replayed at the same time there.
        choose_device(self, software=True)

    def run(self, start, variant, repeats=None):
        if variant is not None:
            self.kernels[True] = self.make_variant()
        return super().run(start, variant, repeats)

    def run_in_turn(self, first, further, variant, repeats=None, **_options):
        if variant is None:
            return super().run_in_turn(first, further, variant)
        self.in_turn.append([start.key for start in further])
        self.kernels[True] = self.make_variant()
        runs = [super().run(first, variant, repeats)]
        runs += [super(InProcesses, self).run(start, variant) for start in further]
        return runs if all(run.completed for run in runs) else None


def make_keeper():
    """A kernel that computes once, and copies that result later."""
    kept = []

    def kernel(values):
        kept[:] = kept or [values * 2]
        values[:] = kept[0]

    return kernel


def test_a_result_that_is_kept_from_the_first_run_is_wrong_for_another_state(store):
    bench = InProcesses(store, double, make_keeper)
    judgement = bench.judge(seed=1)
    assert not judgement.passed
    assert bench.in_turn


def test_a_later_verdict_runs_from_all_states_in_one_process_and_twice_from_each(store):
    bench = InProcesses(store, double, lambda: double)
    assert bench.judge().passed
    bench.keep()
    bench.in_turn.clear()
    judgement = bench.judge()
    assert judgement.passed
    assert judgement.pre_states == 2
    assert [sorted(map(repr, keys)) for keys in bench.in_turn] == [
        [repr(keys[0])] * 2 for keys in bench.in_turn
    ]
    assert len(bench.in_turn) == 1


def test_a_variant_that_does_not_complete_in_turn_runs_from_each_state_alone(store):
    def make():
        calls = []

        def kernel(values):
            calls.append(1)
            if len(calls) > 2:
                raise ValueError("no third run")
            values *= 2

        return kernel

    bench = InProcesses(store, double, make)
    judgement = bench.judge(variant_runs=2)
    assert bench.in_turn
    assert judgement.passed, judgement.reasons
    assert judgement.pre_states == 2


def test_memory_that_is_kept_between_runs_is_named_as_the_reason(store):
    bench = InProcesses(store, double, make_keeper)
    reasons = bench.judge(seed=1).reasons
    assert any("in a process of its own than after another run" in reason for reason in reasons), reasons


class Slow(InProcesses):
    """The first run takes so long that further states are left out, if they may be."""

    def run_in_turn(self, first, further, variant, repeats=None, *, within_ms=None, **options):
        if within_ms is None or variant is None:
            return super().run_in_turn(first, further, variant, repeats, **options)
        self.postponed += 1
        return [self.run(first, variant, repeats)]

    postponed = 0


def test_behind_a_long_run_further_states_wait_until_it_is_right(store):
    bench = Slow(store, double, make_keeper)
    assert not bench.judge(seed=1).passed  # it is caught in a process that runs from both states
    assert bench.postponed == 1
    assert bench.in_turn
    wrong = Slow(store, double, lambda: lambda values: values.fill(0))
    assert not wrong.judge(seed=1).passed
    assert (wrong.postponed, wrong.in_turn) == (1, [])


def test_fresh_values_come_in_the_process_of_the_first_run(store):
    bench = InProcesses(store, double, lambda: double)
    assert bench.judge(seed=1).passed
    assert len(bench.in_turn) == 1
    states = set(bench.in_turn[0])
    # A perturbed one, and with fresh values: all elements, few, few others, other signs in two, zeros.
    assert len(states) == 7
    assert len(bench.in_turn[0]) == 14


def test_on_hardware_they_come_there_without_a_perturbed_state_that_is_too_large(store, monkeypatch):
    changes = Start.changes.fget
    monkeypatch.setattr(Start, "changes", property(lambda start: changes(start) if start.is_fresh else None))
    bench = choose_device(InProcesses(store, double, lambda: double), software=False)
    assert bench.judge(seed=1).passed
    (states,) = bench.in_turn
    assert (len(states), len(set(states))) == (12, 6)


@pytest.mark.parametrize("order", [None, 7])
def test_the_second_run_from_each_state_has_another_order_of_waves(order):
    first, *further = (SimpleNamespace(key=name) for name in ("first", "one", "other"))
    seen = []

    def run_in_turn(_first, sequence, _variant, _repeats, *, orders, **_options):
        seen.append(([start.key for start in sequence], orders))

    with Speculation(SimpleNamespace(run_in_turn=run_in_turn)) as replays:
        replays.begin_further(first, further, VARIANT, order)
    ((names, orders),) = seen
    assert sorted(names) == ["one", "one", "other", "other"]
    if order is None:
        assert orders == {}
    else:
        assert {names[number]: seed for number, seed in orders.items()} == {"one": 7, "other": 8}
        assert all(names.index(names[number]) < number for number in orders)


def test_the_captured_kernel_runs_once_from_each_state_up_to_one_that_it_does_not_bear():
    first, *further = (SimpleNamespace(key=name) for name in ("first", "borne", "not borne", "unknown"))
    alone = []

    def run_in_turn(_first, sequence, variant, _repeats, **_options):
        assert (sequence, variant) == (further, None)
        outcomes = (ReplayOutcome.COMPLETED, ReplayOutcome.COMPLETED, ReplayOutcome.FAULTED)
        return [Run(outcome, "in turn", {}) for outcome in outcomes]

    def run(start, _variant, _repeats=None):
        alone.append(start.key)
        return Run(ReplayOutcome.COMPLETED, None, {})

    with Speculation(SimpleNamespace(run_in_turn=run_in_turn, run=run)) as replays:
        replays.begin_further(first, further, None)
        outcomes = [replays.run(start, None).outcome for start in further]
        assert replays.run(first, None).completed
    assert outcomes == [ReplayOutcome.COMPLETED, ReplayOutcome.FAULTED, ReplayOutcome.COMPLETED]
    assert alone == ["unknown", "first"]


def test_runs_that_nobody_asked_for_do_not_delay_the_verdict():
    sleeper, begun = threading.Event(), threading.Event()
    killed, waiting = [], []

    def run(*_):
        waiting.append(threading.get_ident())
        begun.set()
        sleeper.wait(60)
        return Run(ReplayOutcome.CRASHED, "killed", {})

    def kill(threads):
        killed.append(threads)
        sleeper.set()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kerncap_stages.validate.replays.speculation.kill_running", kill)
        with Speculation(SimpleNamespace(run=run), kills=True) as replays:
            replays.begin(SimpleNamespace(key="fresh"), None)
            assert begun.wait(60)
    assert killed[0] == set(waiting)


class Faulting:
    """A replayer whose runs in turn end in the first."""

    def __init__(self, outcome=ReplayOutcome.FAULTED):
        self.outcome, self.alone = outcome, []

    def run(self, start, variant, _repeats=None):
        self.alone.append((start.key, variant))
        return Run(ReplayOutcome.COMPLETED, None, {})

    def run_in_turn(self, _first, _further, _variant, _repeats=None, **_options):
        return [Run(self.outcome, "a fault", {})]


@pytest.mark.parametrize("beside", [False, True])
def test_a_fault_in_turn_is_an_answer_unless_something_ran_beside_it(beside):
    first, other = SimpleNamespace(key="first"), SimpleNamespace(key="other")
    replayer = Faulting()
    with Speculation(replayer) as replays:
        replays.begin_in_turn(first, [other], VARIANT)
        if beside:
            replays.begin(other, None)
        run = replays.run(first, VARIANT)
        assert run.completed is beside  # two at once may be short of memory, so it was run again
        assert ((first.key, VARIANT) in replayer.alone) is beside
        assert replays.run_after(first, other, VARIANT, None).completed


@pytest.mark.parametrize(
    ("neighbours", "answers"),
    [
        (NO_NEIGHBOURS, "faulted crashed timed_out"),
        (Neighbours(on_machine=True), "faulted timed_out"),  # there may have been no memory for all
        (Neighbours(on_machine=True, on_device=True), ""),
    ],
)
@pytest.mark.parametrize("outcome", [each for each in ReplayOutcome if each is not ReplayOutcome.COMPLETED])
def test_an_end_that_other_workers_may_have_caused_is_no_answer_yet(neighbours, answers, outcome):
    first, other = SimpleNamespace(key="first"), SimpleNamespace(key="other")
    replayer = Faulting(outcome)
    with Speculation(replayer, neighbours=neighbours) as replays:
        replays.begin_in_turn(first, [other], VARIANT)
        run = replays.run(first, VARIANT)
    is_answer = outcome in answers.split()
    assert run.outcome is (outcome if is_answer else ReplayOutcome.COMPLETED)
    assert replayer.alone == ([] if is_answer else [(first.key, VARIANT)])


@pytest.mark.parametrize("in_turn", [False, True])
@pytest.mark.parametrize("beside_s", [0.0, 0.6])
def test_a_hang_is_an_answer_if_it_was_alone_for_half_of_its_time(in_turn, beside_s):
    first, other = SimpleNamespace(key="first"), SimpleNamespace(key="other")
    hung = []

    def run(_start, variant, _repeats=None):
        if variant is None:
            time.sleep(beside_s)
            return Run(ReplayOutcome.COMPLETED, None, {})
        hung.append(1)
        time.sleep(0.5)
        return Run(ReplayOutcome.TIMED_OUT, "it did not end", {})

    replayer = SimpleNamespace(run=run, run_in_turn=lambda *_, **__: [run(first, VARIANT)])
    with Speculation(replayer) as replays:
        replays.begin(other, None)
        if in_turn:
            replays.begin_in_turn(first, [other], VARIANT)
        else:
            replays.begin(first, VARIANT)
        assert replays.run(first, VARIANT).outcome is ReplayOutcome.TIMED_OUT
    assert len(hung) == (2 if beside_s else 1)
