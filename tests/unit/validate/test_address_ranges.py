"""Words that lead into known memory, found and left as they are."""

from __future__ import annotations

import numpy as np
import pytest
from manifest_examples import capture

from kerncap_stages.digest import MemoryRef
from kerncap_stages.store import Store
from kerncap_stages.validate.arguments import Span
from kerncap_stages.validate.perturb.address_ranges import AddressRanges, find_null_words
from kerncap_stages.validate.perturb.states import Perturbation, Trial, perturb


def test_a_range_holds_its_first_word_and_not_what_is_behind_its_last():
    ranges = AddressRanges([(0x3000, 0x100), (0x1000, 0x10)])
    words = np.array([0xFFF, 0x1000, 0x100F, 0x1010, 0x3000, 0x30FF, 0x3100, 0, 2**64 - 1], np.uint64)
    assert ranges.find_ranges(words).tolist() == [-1, 0, 0, -1, 1, 1, -1, -1, -1]
    assert AddressRanges([]).find_ranges(words).tolist() == [-1] * words.size


def test_what_lies_behind_a_range_inside_another_is_in_that():
    ranges = AddressRanges([(0x1000, 0x1000), (0x1400, 0x100)])
    assert (ranges.find_ranges(np.array([0x1300, 0x1450, 0x1F00], np.uint64)) >= 0).all()


def test_words_are_found_at_their_places_in_memory_of_any_size():
    words = np.zeros(300_000, np.uint64)
    places = [0, 7, 131_071, 131_072, 299_999]
    words[places] = 0x1008
    assert AddressRanges([(0x1000, 0x10)]).find_addresses(words).tolist() == places


def test_words_before_between_and_behind_the_ranges_are_no_addresses():
    ranges = AddressRanges([(0x3000, 0x100), (0x1000, 0x10)])
    words = np.array([0, 0xFFF, 0x1000, 0x1010, 0x2FFF, 0x30FF, 0x3100, 2**63, 2**64 - 1], np.uint64)
    assert ranges.find_addresses(words).tolist() == [2, 5]
    assert AddressRanges([]).find_addresses(words).tolist() == []


@pytest.mark.parametrize(
    ("addresses", "zeros"),
    [([1, 5, 13, 17], [9, 21]), ([1, 5, 8, 13], [2, 4, 9, 21]), ([1, 5], [2, 4, 9, 21]), ([], [2, 4, 9, 21])],
    ids=["records", "no-records", "few", "none"],
)
def test_zeros_may_be_addresses_where_those_are(addresses, zeros):
    words = np.ones(24, np.uint64)
    words[[2, 4, 9, 21]] = 0
    assert find_null_words(words, np.array(addresses, np.int64)).tolist() == zeros


@pytest.mark.parametrize(
    ("change", "kept"),
    [
        (Perturbation.LIGHT, []),
        (Perturbation.LIGHT_NUMBERS, [3, 31]),
        (Perturbation.LIGHT_VARIABLE_NUMBERS, [3, 31]),
        (Perturbation.LIGHT_NONZERO, [3, 31, 16, 17]),
        (Perturbation.LIGHT_VARIABLE_NONZERO, [3, 31, 16, 17]),
    ],
)
def test_what_a_change_spares_stays_where_all_else_is_changed(tmp_path, change, kept):
    store = Store.open(tmp_path / "store")
    before = np.arange(1, 33, dtype=np.uint64)
    before[[3, 31]] = 0x7F0000000010
    before[[16, 17]] = 0
    with store.begin_transaction() as transaction:
        pre = MemoryRef.to(transaction.put_memory(before))
        transaction.publish_objects()
    region = capture().regions[0].model_copy(update={"size_bytes": 256, "pre": pre, "post": pre})
    ranges = AddressRanges([(0x7F0000000000, 0x100)])
    with store.begin_transaction() as transaction:
        made = perturb(
            store, transaction, Trial(region, change, (Span(0, 256, "int32"),)), [(0, 256)], ranges
        )
        transaction.publish_objects()
    expected = before ^ np.uint64(0x0101010101010101)
    expected[kept] = before[kept]
    assert store.read_memory(MemoryRef.to(made.digest).digest).tobytes() == expected.tobytes()
