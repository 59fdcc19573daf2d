"""Guarded runs: what a kernel must be able to write is found by the captured kernel's own, and kept."""

from __future__ import annotations

import numpy as np
import pytest
from made_up_replays import BASE, COUNT, VARIANT, Bench, double

from kerncap_stages.manifests.replay import ReplayOutcome
from kerncap_stages.manifests.validation import BaselineReplay, Mode, OutputState
from kerncap_stages.replay.report import GuardedRuns
from kerncap_stages.validate.judgement import Judgement
from kerncap_stages.validate.perturb.memory_ranges import find_rest, halve_ranges, merge_ranges
from kerncap_stages.validate.perturb.start import Start
from kerncap_stages.validate.replays.baselines import Baselines
from kerncap_stages.validate.replays.replayer import Run
from kerncap_stages.validate.unexpected_writes import GuardedWrites

OUT = (BASE, BASE + COUNT * 4)
# Further memory of the capture, each part with a name.
PARTS = [
    OUT,
    *((BASE + (1 << 30) * number, BASE + (1 << 30) * number + (64 << 20)) for number in range(1, 5)),
]
LABELS = ["out", "a", "b", "c", "d"]
MIB = 1 << 20


class Device:
    """Kernels that write at these addresses; a guarded one faults at the first that is not open."""

    def __init__(self, captured, variant, *, tells=False):
        self.writes, self.tells, self.trials = {False: captured, True: variant}, tells, []

    def run(self, _start, variant, repeats):
        is_variant = variant is not None
        self.trials.append(is_variant)
        opened = [OUT, *repeats.guard.opened]
        bad = [at for at in self.writes[is_variant] if not any(low <= at < high for low, high in opened)]
        where = f"the kernel accessed {bad[0]:#x}, which is not allowed" if bad and self.tells else "a fault"
        runs = GuardedRuns(0, 0 if bad else 2, 1 << 20, where if bad else "")
        return Run(ReplayOutcome.COMPLETED, None, {}, guard=runs)


@pytest.fixture
def judge(store):
    """Judge guarded runs of a variant; ``known``: replays of the captured kernel that were kept."""
    bench = Bench(store, double)
    known = {}

    def run(device, *, replays=()):
        baselines = Baselines(store, bench.capture, device, {}, known.get)
        baselines.kept += replays
        guarded = GuardedWrites(store, bench.capture, PARTS, LABELS, device, baselines)
        start = Start(store, bench.capture)
        first = device.run(start, VARIANT, type("Repeats", (), {"guard": guarded.guard})).guard
        device.trials.clear()
        judgement = guarded.judge(Judgement(Mode.BYTE_EXACT), start, VARIANT, first, {})
        known.update({each.key: each for each in baselines.kept})
        return judgement

    run.bench = bench
    return run


def test_a_variant_that_completes_costs_no_replay(judge):
    device = Device([PARTS[1][0]], [])
    judgement = judge(device)
    assert judgement.passed
    assert judgement.guarded.runs == 2
    assert device.trials == []


@pytest.mark.parametrize("tells", [True, False])
def test_what_only_the_variant_writes_is_named(judge, tells):
    device = Device([], [PARTS[3][0] + 5], tells=tells)
    judgement = judge(device)
    assert not judgement.passed
    assert judgement.reasons[0].endswith("and puts back what was there: c")
    # The captured kernel once; a device that tells no address is asked by halves.
    assert device.trials == [False, *([] if tells else [True] * 3)]


def test_memory_that_the_captured_kernel_must_write_is_left_open_in_little_and_kept(judge):
    lock = PARTS[2][0] + 40 * MIB
    judgement = judge(Device([lock], [lock]))
    assert judgement.passed
    opened = judgement.guarded.opened
    assert any(low <= lock < high for low, high in opened)
    assert sum(high - low for low, high in opened) <= 16 * MIB
    # Nothing has to be found out again, and another part is guarded still.
    again = Device([lock], [lock])
    assert judge(again).guarded.opened == opened
    assert again.trials == []
    assert not judge(Device([lock], [lock, PARTS[2][0]])).passed
    assert not judge(Device([lock], [PARTS[4][0]])).passed


def test_where_the_captured_kernel_is_known_to_write_is_opened_first(judge):
    values = np.zeros(COUNT, np.float32)
    pre = judge.bench._put(values)
    values[3] = 1
    where = PARTS[1][0]
    replay = BaselineReplay(
        key="0" * 64,
        changed_region=where,
        pre=pre,
        outcome=ReplayOutcome.COMPLETED,
        explanation=None,
        outputs=(OutputState(base_address=where, post=judge.bench._put(values)),),
    )
    lock = where + 14  # the first byte of 1.0 that is not zero
    device = Device([lock], [lock])
    judgement = judge(device, replays=[replay])
    assert judgement.passed
    assert [low <= lock < high for low, high in judgement.guarded.opened] == [True]
    assert device.trials == [True]  # only the variant ran once more


def test_ranges_are_halved_merged_and_taken_out():
    assert halve_ranges([(0, 1), (2, 3), (4, 5)]) == [[(0, 1)], [(2, 3), (4, 5)]]
    assert halve_ranges([(0, 8 * MIB)]) == [[(0, 4 * MIB)], [(4 * MIB, 8 * MIB)]]
    assert halve_ranges([(100, 200)]) == []
    assert merge_ranges([(5, 7), (0, 3), (3, 4), (6, 9)]) == ((0, 4), (5, 9))
    assert list(find_rest([(0, 10), (20, 30)], [(4, 6), (20, 30)])) == [(0, 4), (6, 10)]
