"""Running statistics against the same numbers taken at once."""

from __future__ import annotations

import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncap_stages.collect.protocol import RECORD
from kerncap_stages.collect.ranking import list_program_kernels, rank_kernels
from kerncap_stages.collect.statistics import ShapeKey, Tally, tally_records
from kerncap_stages.manifests.kernel import count_blocks

durations = st.lists(st.integers(0, 10**12), min_size=1, max_size=40)


def records_of(rows):
    """Rows: (kernel, grid x, block x, start, end)."""
    records = np.zeros(len(rows), RECORD)
    for record, (kernel, grid, block, start, end) in zip(records, rows, strict=True):
        record["kernel"], record["start_ns"], record["end_ns"] = kernel, start, end
        record["grid_work_items"], record["block"] = (grid, 1, 1), (block, 1, 1, 0)
    return records


@given(st.lists(durations, min_size=1, max_size=5))
def test_pieces_add_up_to_the_whole(pieces):
    tally = Tally()
    for piece in pieces:
        tally.add(np.asarray(piece, np.int64))
    whole = [value for piece in pieces for value in piece]
    assert (tally.calls, tally.total_ns) == (len(whole), sum(whole))
    assert (tally.min_ns, tally.max_ns) == (min(whole), max(whole))
    assert tally.mean_ns == pytest.approx(statistics.fmean(whole))
    wanted = statistics.stdev(whole) if len(whole) > 1 else 0.0
    assert tally.stddev_ns == pytest.approx(wanted, rel=1e-6, abs=1e-3)


@given(durations, durations)
def test_merging_is_adding(first, second):
    merged, added = Tally(), Tally()
    for piece in (first, second):
        one = Tally()
        one.add(np.asarray(piece, np.int64))
        merged.merge(one)
        added.add(np.asarray(piece, np.int64))
    assert (merged.calls, merged.total_ns, merged.min_ns, merged.max_ns) == (
        added.calls,
        added.total_ns,
        added.min_ns,
        added.max_ns,
    )
    assert merged.stddev_ns == pytest.approx(added.stddev_ns)


def test_records_are_told_apart_by_kernel_and_shape():
    tallies: dict[int, Tally] = {}
    tally_records(records_of([(1, 64, 64, 0, 10), (2, 64, 64, 5, 25), (1, 128, 64, 30, 60)]), tallies)
    tally_records(records_of([(1, 64, 64, 70, 75)]), tallies)
    assert {kernel: (tally.calls, tally.total_ns) for kernel, tally in tallies.items()} == {
        1: (3, 45),
        2: (1, 20),
    }
    assert tallies[1].shapes == {
        ShapeKey((64, 1, 1), (64, 1, 1), 0): (2, 15),
        ShapeKey((128, 1, 1), (64, 1, 1), 0): (1, 30),
    }


def test_the_shape_that_was_used_last_is_known_whatever_order_records_come_in():
    """Queues finish in their own order, and kernels of one name may be of several code objects."""
    tallies: dict[int, Tally] = {}
    tally_records(records_of([(1, 64, 64, 50, 90), (1, 128, 64, 0, 10)]), tallies)
    tally_records(records_of([(1, 256, 64, 20, 30), (2, 64, 32, 91, 95), (2, 64, 16, 40, 50)]), tallies)
    assert tallies[1].last == (90, ShapeKey((64, 1, 1), (64, 1, 1), 0))
    tallies[1].merge(tallies[2])
    (kernel,) = rank_kernels({("k", "k"): tallies[1]})
    assert kernel.launch_shapes[kernel.last_shape].block_work_items == (32, 1, 1)


def test_a_clock_that_runs_backwards_counts_as_nothing():
    tallies: dict[int, Tally] = {}
    tally_records(records_of([(1, 64, 64, 100, 40), (1, 64, 64, 0, 8)]), tallies)
    assert (tallies[1].calls, tallies[1].total_ns, tallies[1].min_ns) == (2, 8, 0)


def test_the_largest_total_comes_first_and_shares_add_up():
    tallies = {}
    for name, values in (("b", [5, 5]), ("a", [30]), ("c", [10])):
        tallies[(None, name)] = Tally()
        tallies[(None, name)].add(np.asarray(values, np.int64))
    order = rank_kernels(tallies)
    assert [kernel.name for kernel in order] == ["a", "b", "c"]
    assert [kernel.share for kernel in order] == [0.6, 0.2, 0.2]


def test_a_last_partial_work_group_counts():
    assert count_blocks((1000, 3, 1), (256, 2, 1)) == (4, 2, 1)
    assert count_blocks((256, 1, 1), (256, 1, 1)) == (1, 1, 1)


def test_the_runtimes_own_kernels_come_last():
    tally = Tally()
    tally.add(np.array([1], np.int64))
    copy, scale = rank_kernels({(None, "__amd_rocclr_copyBuffer"): tally, (None, "scale(float*)"): tally})
    assert list_program_kernels([copy, scale]) == [scale]
    assert list_program_kernels([copy]) == [copy]
