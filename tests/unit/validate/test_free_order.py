"""Recognises outputs whose order is free, from a few runs of the captured kernel."""

from __future__ import annotations

import numpy as np
import pytest

from kerncap_stages.validate.arguments import Span
from kerncap_stages.validate.compare.bounds import Bounds
from kerncap_stages.validate.compare.free_order import find_free_order, join_orders

RECORD = np.dtype([("number", np.int32), ("position", np.float32), ("speed", np.float32), ("cell", np.int32)])
COUNT = 180
PLACES = 4096


def make_list(seed):
    generator = np.random.default_rng(seed)
    records = np.zeros(COUNT, RECORD)
    records["number"] = np.sort(generator.choice(512, COUNT, replace=False))
    records["position"] = generator.uniform(-1, 1, COUNT)
    records["speed"] = generator.normal(0, 3, COUNT)
    records["cell"] = generator.integers(0, 50, COUNT)
    return records


def move_chunks(records, size, seed):
    """The records, of which chunks of a size have changed places, as the work-groups that wrote them do."""
    order = np.random.default_rng(seed).permutation(COUNT // size)
    return records.reshape(-1, size)[order].reshape(-1)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_records_that_move_in_chunks_are_records(seed, size):
    expected = make_list(seed)
    runs = [expected, *(move_chunks(expected, size, seed + each) for each in range(3))]
    content = [np.ascontiguousarray(run).view(np.uint8) for run in runs]
    free = find_free_order(Span(0, content[0].size, None, "list"), np.zeros_like(content[0]), content)
    assert free is not None
    assert (free.record_bytes, free.ranges) == (16, ((0, 16 * COUNT),))
    other = np.ascontiguousarray(move_chunks(expected, 1, seed + 9)).view(np.uint8)
    assert free.is_kept(content[0], other, Bounds())


def exchange(content, one, other):
    changed = content.copy()
    changed[[one, other]] = content[[other, one]]
    return changed


def find_order(before, *runs):
    before, *runs = (each.view(np.uint8) for each in (before, *runs))
    return find_free_order(Span(0, before.size, "int32", "table"), before, runs)


def test_two_places_of_a_table_are_not_all_that_may_change():
    """Other runs may change other places. A list has no gaps, so all of its places may."""
    before = np.zeros(PLACES, np.int32)
    table = before.copy()
    table[10:20], table[100:300] = range(1, 11), range(1, 201)
    free = find_order(before, table, exchange(table, 12, 15))
    assert free.has_others
    table[100:300] = 0
    free = find_order(before, table, exchange(table, 12, 15))
    assert (free.ranges, free.has_others) == (((40, 80),), False)


def test_what_lies_behind_a_shorter_list_is_none_of_its_elements():
    """It differs with what the output held before, which says nothing of the list."""
    old = np.random.default_rng(1).integers(1, 1 << 30, PLACES, dtype=np.int32)
    zeros = np.zeros(PLACES, np.int32)

    def fill(before, count, seed):
        filled = before.copy()
        filled[:count] = np.random.default_rng(seed).permutation(count) + 7
        return filled

    captured = find_order(zeros, *(fill(zeros, 200, seed) for seed in range(4)))
    here = find_order(old, *(fill(old, 120, seed) for seed in range(4)))
    joined = join_orders({(7, 0): here}, {(7, 0): captured})[7, 0]
    assert (joined.ranges, joined.within(here).ranges) == (((0, 800),), ((0, 480),))
    expected, other = fill(old, 120, 0).view(np.uint8), fill(zeros, 120, 5).view(np.uint8)
    assert not joined.has_same(expected, other)
    assert joined.within(here).has_same(expected, other)


def test_what_two_states_show_is_joined():
    before = np.zeros(PLACES, np.int32)
    longer, shorter = before.copy(), before.copy()
    longer[10:200], shorter[5:100] = range(1, 191), range(1, 96)
    both = [
        {(7, 0): find_order(before, each, exchange(each, 20, 30)), (7, number): None}
        for number, each in enumerate((longer, shorter), start=1)
    ]
    joined = join_orders(*both)
    assert joined.keys() == {(7, 0), (7, 1)}
    assert joined[7, 0].ranges == ((20, 800),)
    right, wrong = exchange(shorter, 6, 99), shorter.copy()
    wrong[50] += 1
    assert joined[7, 0].is_kept(shorter.view(np.uint8), right.view(np.uint8), Bounds())
    assert not joined[7, 0].is_kept(shorter.view(np.uint8), wrong.view(np.uint8), Bounds())
