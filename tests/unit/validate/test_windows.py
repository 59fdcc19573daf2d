"""Parts of memory that is too large to get fresh values everywhere."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

from kerncap_stages.digest import MemoryRef
from kerncap_stages.validate.arguments import CHUNK_BYTES, Span, Window, choose_window
from kerncap_stages.validate.fresh_states import choose_inputs
from kerncap_stages.validate.perturb.lost_numbers import OutputJudge

SIZE = 40 * CHUNK_BYTES + 12
SECOND = 17 * CHUNK_BYTES + 20  # where the second pointer leads, in the middle of an aligned element
PARTS = (Span(0, SECOND, "fp64", "x"), Span(SECOND, SIZE, "fp32", "y"))


@pytest.mark.parametrize("chunks", [1, 2, 8])
def test_a_window_has_the_first_chunk_of_each_part_and_others_from_the_seed(chunks):
    found = choose_window(PARTS, (), chunks * CHUNK_BYTES, seed=3)
    window = Window(SIZE, found)
    assert window.chunk_bytes == chunks * CHUNK_BYTES
    assert found[0].start == 0
    assert any(part.start == SECOND for part in found) is (chunks > 1)
    assert found == choose_window(PARTS, (), chunks * CHUNK_BYTES, seed=3)
    others = {choose_window(PARTS, (), chunks * CHUNK_BYTES, seed) for seed in range(8)}
    assert len(others) == 8 if chunks > 2 else len(others) == 1


def test_a_window_has_the_chunks_to_which_pointers_lead():
    whole = (Span(0, SIZE, "fp32", "x"),)
    found = Window(SIZE, choose_window(whole, (30 * CHUNK_BYTES + 8, SECOND), 3 * CHUNK_BYTES, seed=3))
    assert [part.start // CHUNK_BYTES for part in found.parts] == [0, 17, 30]


def test_a_window_begins_with_whole_elements_of_its_part():
    found = choose_window(PARTS, (), 8 * CHUNK_BYTES, seed=3)
    assert all(low.end <= high.start for low, high in pairwise(found))
    of_second = [part for part in found if part.label == "y"]
    assert len(of_second) > 1
    assert all((part.start - SECOND) % 16 == 0 and part.end <= SIZE for part in of_second)
    assert {part.element_type for part in of_second} == {"fp32"}


def test_only_the_chunks_of_a_window_are_read_and_replaced(store):
    content = np.random.default_rng(1).integers(0, 256, SIZE, np.uint8)
    with store.begin_transaction() as transaction:
        memory = MemoryRef.to(transaction.put_memory(content))
        transaction.publish_objects()
    last = (Span(3, 40, "fp32", "x"), Span(SIZE - 8, SIZE, "fp32", "y"))  # the last chunk has 12 bytes
    chosen = choose_window(PARTS, (), 8 * CHUNK_BYTES, seed=3)
    for window in (Window(SIZE, chosen), Window(SIZE, PARTS), Window(SIZE, last[1:]), Window(SIZE, last)):
        read = window.read(store, memory).copy()
        assert read.size == window.chunk_bytes or window.parts[-1] == last[1]
        expected = content.copy()
        for part, inner in zip(window.parts, window.inner_parts, strict=True):
            assert (read[inner.start : inner.end] == content[part.start : part.end]).all()
            read[inner.start : inner.end] ^= 1
            expected[part.start : part.end] ^= 1
        with store.begin_transaction() as transaction:
            made = window.put(store, transaction, memory, read)
            transaction.publish_objects()
        assert (store.read_memory(made.digest) == expected).all()


def make_regions(*sizes):
    """Regions of (chunks, whether the dispatch changed it)."""
    return [
        SimpleNamespace(
            base_address=i + 1,
            size_bytes=chunks * CHUNK_BYTES,
            written_size_bytes=4 if is_written else 0,
        )
        for i, (chunks, is_written) in enumerate(sizes)
    ]


@pytest.mark.parametrize(
    ("sizes", "whole", "in_parts"),
    [
        ([(10, False), (40, True)], [1, 2], {}),
        ([(60, False), (70, True)], [1], {2: 4}),
        ([(10, True), (50, False), (100, False)], [1], {2: 8, 3: 8}),
        ([(10, False), (1, True), (300, False), (300, False)], [1, 2], {3: 8, 4: 8}),
        ([(64, False), (70, True)], [1], {}),
        ([(30, False), (20, True), (65, False)], [1], {2: 8, 3: 8}),
        ([(40, False), (5, True), (70, False), (9, True)], [1, 2], {3: 8, 4: 8}),
    ],
)
def test_inputs_that_do_not_fit_share_a_quarter_of_the_limit(sizes, whole, in_parts):
    regions = make_regions(*sizes)
    choice = choose_inputs(regions, 64 * CHUNK_BYTES)
    assert choice.in_parts == {base: chunks * CHUNK_BYTES for base, chunks in in_parts.items()}
    fresh = [each.base_address for each in choice.fresh]
    assert [base for base in fresh if base not in in_parts] == whole
    assert sorted(fresh + [each.base_address for each in choice.kept]) == sorted(
        each.base_address for each in regions
    )
    assert choice.fresh_bytes <= 64 * CHUNK_BYTES


def test_what_the_dispatch_left_as_it_was_is_not_read_to_judge_outputs(store, monkeypatch):
    content = np.arange(SIZE // 4, dtype=np.uint32)
    states = []
    for factor in (1, 3, 5):
        content[:16] *= factor
        with store.begin_transaction() as transaction:
            states.append(MemoryRef.to(transaction.put_memory(content.view(np.uint8))))
            transaction.publish_objects()
    region = SimpleNamespace(
        base_address=1, size_bytes=SIZE, pre=states[0], post=states[1], written=((0, 64),)
    )
    parts = (replace(PARTS[0], start=0, end=CHUNK_BYTES), replace(PARTS[0], start=SECOND, end=SIZE))
    read, original = [], Window.read

    def record(window, *where):
        read.extend(window.parts)
        return original(window, *where)

    monkeypatch.setattr(Window, "read", record)
    judge = OutputJudge(store, [(region, parts)])
    assert judge.find_lost({1: states[0]}, {1: states[2]}) == {}
    assert set(read) == {parts[0]}
    unwritten = OutputJudge(store, [(region, parts[1:])])
    assert unwritten.find_lost({1: states[0]}, {1: states[2]}) == {}
    assert set(read) == {parts[0]}
