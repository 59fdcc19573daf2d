"""Where memory of unknown type differs, if it differs as floats do."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from made_up_replays import BASE, Bench

from kerncap_stages.manifests.replay import ReplayOutcome
from kerncap_stages.manifests.validation import Mode
from kerncap_stages.validate.arguments import Span
from kerncap_stages.validate.compare.bounds import Bounds
from kerncap_stages.validate.compare.elements import find_dtype
from kerncap_stages.validate.judgement import Judgement
from kerncap_stages.validate.own_comparison import OwnComparison
from kerncap_stages.validate.perturb.expectation import Expectation
from kerncap_stages.validate.perturb.own_ranges import cut_at_ranges, find_float_ranges
from kerncap_stages.validate.replays.replayer import Run

SIZE = 64 << 10
FLOATS = slice(8 << 10, 24 << 10)  # of the bytes; the rest holds small integers


@pytest.fixture
def pool():
    """Memory before and after a kernel wrote floats among integers: uint8[SIZE] each."""
    after = (np.arange(SIZE // 4, dtype=np.uint32) % 7).view(np.uint8)
    before = after.copy()
    after[FLOATS] = np.random.default_rng(4).normal(size=(16 << 10) // 4).astype(np.float32).view(np.uint8)
    return before, after


def changed(content, byte, dtype, value):
    other = content.copy()
    other[byte : byte + np.dtype(dtype).itemsize].view(dtype)[0] += value
    return other


def test_one_sum_that_differs_tells_the_type_and_all_of_the_array(pool):
    before, after = pool
    found = find_float_ranges(
        Span(0, SIZE, None, "out"), before, after, [changed(after, 12 << 10, np.float32, 1e-6)]
    )
    assert found == (Span(FLOATS.start, FLOATS.stop, "fp32", "out"),)


def test_what_lies_behind_the_start_of_a_part_counts_from_there(pool):
    before, after = pool
    found = find_float_ranges(
        Span(4096, 4096 + SIZE, None), before, after, [changed(after, 12 << 10, np.float32, 1e-6)]
    )
    assert found == (Span(4096 + FLOATS.start, 4096 + FLOATS.stop, "fp32"),)


@pytest.mark.parametrize("byte", [0, 40 << 10, SIZE - 4])
def test_integers_that_differ_are_no_floats(pool, byte):
    before, after = pool
    assert not find_float_ranges(Span(0, SIZE, None), before, after, [changed(after, byte, np.uint32, 1)])


def test_an_integer_that_differs_beside_floats_leaves_no_range(pool):
    before, after = pool
    both = changed(changed(after, 12 << 10, np.float32, 1e-6), 40 << 10, np.uint32, 1)
    assert not find_float_ranges(Span(0, SIZE, None), before, after, [both])


def test_nothing_differs(pool):
    before, after = pool
    assert not find_float_ranges(Span(0, SIZE, None), before, after, [after.copy()])


def test_one_run_that_differs_in_an_integer_leaves_no_range(pool):
    before, after = pool
    as_floats = changed(after, 12 << 10, np.float32, 1e-6)
    other = changed(after, 40 << 10, np.uint32, 1)
    assert find_float_ranges(Span(0, SIZE, None), before, after, [as_floats])
    assert not find_float_ranges(Span(0, SIZE, None), before, after, [as_floats, other])


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("first", [0, 1000, 4096, 5000])
def test_an_array_that_differs_everywhere_is_the_range_wherever_it_begins(dtype, first):
    element = find_dtype(dtype)
    after = (np.arange(SIZE // 4, dtype=np.uint32) % 7).view(np.uint8)
    before, other = after.copy(), after.copy()
    first = first // 64 * 64
    values = np.random.default_rng(4).uniform(1, 9, 5120)
    here = slice(first, first + values.size * element.itemsize)
    after[here] = values.astype(element).view(np.uint8)
    other[here] = (values * 1.01).astype(element).view(np.uint8)
    found = find_float_ranges(Span(0, SIZE, None), before, after, [other])
    assert (found[0].start, found[-1].end) == (here.start, here.stop)
    assert all(left.end == right.start for left, right in pairwise(found))
    assert {each.element_type for each in found} == {dtype}


def test_blocks_that_do_not_differ_beside_blocks_that_do_everywhere_are_another_array(pool):
    before, after = pool
    other = after.copy()
    differing = slice(FLOATS.start, FLOATS.start + (8 << 10))
    other[differing].view(np.float32)[:] *= np.float32(1.00001)
    found = find_float_ranges(Span(0, SIZE, None), before, after, [other])
    assert found == (Span(differing.start, differing.stop, "fp32"),)


def test_what_lies_around_ranges_has_no_type():
    whole, inner = Span(0, 100, None, "x"), Span(20, 40, "fp32", "x")
    around = [Span(0, 20, None, "x"), inner, Span(40, 100, None, "x")]
    assert [*cut_at_ranges(whole, [inner])] == around
    last = Span(60, 100, "fp32", "x")
    assert [*cut_at_ranges(whole, [inner, last])] == [*around[:2], Span(40, 60, None, "x"), last]
    assert [*cut_at_ranges(whole, [Span(0, 100, "fp32", "x")])] == [Span(0, 100, "fp32", "x")]
    assert [*cut_at_ranges(whole, [])] == [whole]


class Outputs:
    """Judges outputs of a kernel that leaves large sums, each time otherwise, in memory of unknown type."""

    LARGE, SMALL, PACKED, MORE, COUNTS = (slice(start, start + 2048) for start in range(0, 10240, 2048))

    def __init__(self, store, prepare=None):
        numbers = np.random.default_rng(7)
        self.expected = (np.arange(10240, dtype=np.uint32) % 7).view(np.float32)
        for place in (self.LARGE, self.MORE):
            self.expected[place] = numbers.normal(1e6, 1e5, 2048)
        self.expected[self.SMALL] = numbers.uniform(0, 1, 2048)
        packed = np.arange(4096, dtype=np.uint16) % 300 + 128
        self.expected.view(np.uint16)[4096 * 2 : 4096 * 3] = packed
        if prepare is not None:
            prepare(self.expected)
        before = np.zeros(10240, np.float32)
        self.bench = Bench(store, lambda values: np.copyto(values, self.expected), before=before)
        whole = Span(0, self.expected.nbytes, None)
        trials = SimpleNamespace(find_parts=lambda _: [whole])
        explorer = SimpleNamespace(trials=trials, objects=store, find_witness=lambda _: None)
        self.comparison = OwnComparison(store, self.bench.capture, explorer, [])
        capture = self.bench.capture
        start = SimpleNamespace(
            capture=capture, is_fresh=False, is_perturbed=True, trials=(), key="", fresh_name=None
        )
        region = capture.regions[0]
        self.wanted = Expectation(start, {region.base_address: region.post}, Bounds())

    def put(self, seed=None, change=None):
        """Outputs of a run whose sums are in another order, with a change."""
        values = self.expected.copy()
        if seed is not None:
            numbers = np.random.default_rng(seed)
            for place in (self.LARGE, self.MORE):
                values[place] += numbers.integers(-8, 9, 2048).astype(np.float32) / 16
        if change is not None:
            change(values)
        return {BASE: self.bench._put(values)}

    def allows(self, *samples, change=None, exclude=False):
        """Whether a variant may leave sums in another order, with a change."""
        run = Run(ReplayOutcome.COMPLETED, None, samples[0], differing=samples[1:])
        allowed = self.comparison.allow_own_differences(self.wanted, run, exclude=exclude)
        variant = Run(ReplayOutcome.COMPLETED, None, self.put(9, change))
        return self.comparison.judge_outputs(Judgement(Mode.BYTE_EXACT), allowed, variant).passed

    def may_be_own(self, change=None):
        return self.comparison.may_be_own(
            self.wanted, Run(ReplayOutcome.COMPLETED, None, self.put(9, change))
        )


@pytest.fixture
def outputs(store):
    return Outputs(store)


def test_large_sums_in_another_order_pass(outputs):
    assert outputs.may_be_own()
    assert outputs.allows(outputs.put(1), outputs.put(2))


def test_a_small_array_beside_large_sums_must_be_the_same(outputs):
    def change(values):
        values[outputs.SMALL] = 1 - values[outputs.SMALL]

    assert not outputs.may_be_own(change)
    assert not outputs.allows(outputs.put(1), outputs.put(2), change=change)


def test_packed_integers_between_large_sums_must_be_the_same(outputs):
    def change(values):
        values[outputs.PACKED].view(np.uint16)[:] += 1

    assert not outputs.may_be_own(change)
    assert not outputs.allows(outputs.put(1), outputs.put(2), change=change)


def test_packed_integers_among_large_sums_must_be_the_same(store):
    def prepare(values):
        values[100:104].view(np.uint16)[:] = 300

    def change(values):
        values[100:104].view(np.uint16)[:] = 301

    outputs = Outputs(store, prepare)
    samples = outputs.put(1, prepare), outputs.put(2, prepare)
    assert outputs.may_be_own(prepare)
    assert outputs.allows(*samples, change=prepare)
    assert not outputs.may_be_own(change)
    assert not outputs.allows(*samples, change=change)


def test_a_nan_among_the_sums_may_stay_where_it_is(store):
    def prepare(values):
        values[1500] = np.nan

    def change(values):
        values[1500:1502] = values[1500], np.nan

    outputs = Outputs(store, prepare)
    assert outputs.may_be_own()
    assert outputs.allows(outputs.put(1), outputs.put(2))
    assert not outputs.allows(outputs.put(1), outputs.put(2), change=change)


@pytest.mark.parametrize("place", [Outputs.PACKED, Outputs.COUNTS])
def test_a_part_of_which_one_run_differs_in_integers_is_left_out_as_a_whole(outputs, place):
    def order(values):
        values[place].view(np.uint16)[6] += 1

    samples = outputs.put(1), outputs.put(2, order)
    for each in (samples, samples[::-1]):
        assert outputs.allows(*each, change=order, exclude=True)
        assert not outputs.allows(*each, change=order)
