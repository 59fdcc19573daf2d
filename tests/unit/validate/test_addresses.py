"""Outputs that hold addresses of which each run has its own are told by what they point at."""

import numpy as np
import pytest
from manifest_examples import capture as example_capture
from manifest_examples import hsa_kernel

from kerncap_stages.digest import MemoryRef
from kerncap_stages.manifests.memory import MemoryKind
from kerncap_stages.store import Store
from kerncap_stages.validate.arguments import Pointer, explain_addresses

CODE, HEAP, OUTPUT = 0x7F0000000000, 0x7F1000000000, 0x7F2000000000
WORDS = 1 << 18  # two chunks
LEADING = [Pointer("out", OUTPUT, None, is_const=False)]


@pytest.fixture
def store(tmp_path):
    return Store.open(tmp_path / "store")


@pytest.fixture
def capture():
    example = example_capture()
    places = (
        (CODE, MemoryKind.CODE_OBJECT),
        (HEAP, MemoryKind.DEVICE_COARSE),
        (OUTPUT, MemoryKind.DEVICE_COARSE),
    )
    regions = tuple(
        example.regions[0].model_copy(
            update={"base_address": base, "size_bytes": 1 << 20, "kind": kind, "device_index": 0}
        )
        for base, kind in places
    )
    slot = example.kernel.slots[0].model_copy(update={"value_kind": "hidden_heap_v1"})
    return example.model_copy(update={"regions": regions, "kernel": hsa_kernel(slots=(slot,))})


def explained(store, capture, wanted, got, window=None):
    with store.begin_transaction() as transaction:
        both = [MemoryRef.to(transaction.put_memory(np.asarray(each, np.uint64))) for each in (wanted, got)]
        transaction.publish_objects()
    return explain_addresses(store, capture, LEADING, *both, window or (0, 8 * len(wanted)))


def words(places):
    made = np.arange(WORDS, dtype=np.uint64)
    for index, value in places.items():
        made[index] = value
    return made


def test_addresses_of_code_are_named(store, capture):
    wanted = words({5: CODE + 0x100, WORDS - 1: CODE})
    got = words({5: 0x7FFF00000100, WORDS - 1: 0x7FFF00000000})
    said = explained(store, capture, wanted, got)
    assert said.startswith(
        "all 2 words that differ hold addresses of functions or tables in the captured code"
    )
    assert explained(store, capture, wanted, got, (16, 64)).startswith("all 1 words")
    assert explained(store, capture, wanted, got, (64, 128)) is None


def test_other_differences_are_counted_beside_them(store, capture):
    wanted, got = words({5: CODE + 0x100, 6: 1}), words({5: 0x7FFF00000100, 6: 2})
    assert explained(store, capture, wanted, got).startswith("1 of 2 words")


def test_addresses_of_the_heap_are_named_only_where_a_kernel_can_allocate(store, capture):
    wanted, got = words({5: HEAP + 64}), words({5: HEAP + 128})
    assert "the device's heap" in explained(store, capture, wanted, got)
    without = capture.model_copy(update={"kernel": hsa_kernel(slots=())})
    assert explained(store, without, wanted, got) is None


def test_addresses_of_what_the_arguments_lead_to_are_no_excuse(store, capture):
    assert explained(store, capture, words({5: OUTPUT + 64}), words({5: OUTPUT + 128})) is None


def test_plain_numbers_are_no_addresses(store, capture):
    assert explained(store, capture, words({5: 1}), words({5: 2})) is None
