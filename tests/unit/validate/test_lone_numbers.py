"""Numbers that stand alone in an input, and addresses in tables: which become others, and which stay."""

from __future__ import annotations

import numpy as np
import pytest
from manifest_examples import capture

from kerncap_stages.digest import MemoryRef
from kerncap_stages.validate.lone.addresses import exchange_addresses
from kerncap_stages.validate.lone.numbers import change_lone_number

BASE = 0x7F0000000000
FLOATS = np.linspace(1, 2, 1024, dtype=np.float32)


def change(number, kind, *, seed=1, behind=0):
    values = np.zeros(512, kind or np.uint32)
    values[0], values[1] = number, behind
    change_lone_number(values.view(np.uint8), kind, np.random.default_rng(seed))
    assert not values[2:].any()
    assert values[1] == behind
    return int(values[0])


@pytest.mark.parametrize("kind", [None, "int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"])
def test_a_zero_becomes_one(kind):
    assert change(0, kind) == 1
    assert change(0, kind, behind=1) == 0


@pytest.mark.parametrize("kind", [None, "int16", "int32", "uint32"])
def test_a_one_gets_the_two_bits_that_no_other_state_sets_together(kind):
    assert {change(1, kind, seed=seed) for seed in range(20)} == {6, 7}
    assert change(1, kind, behind=3) == 1


def test_a_flag_in_a_byte_and_a_larger_number_stay():
    assert change(1, "uint8") == 1
    assert change(2, "int32") == 2
    assert change(300, "uint32") == 300


@pytest.mark.parametrize("kind", ["int64", "uint64"])
def test_a_number_of_64_bits_keeps_its_lower_half_and_gets_another_upper_one(kind):
    made = [change(42, kind, seed=seed) % (1 << 64) for seed in range(20)]
    assert {each & 0xFFFFFFFF for each in made} == {42}
    assert min(made) > 1 << 63
    assert len(set(made)) == 20
    assert change(42 << 33, kind) == 42 << 33
    assert change(1, kind) % 8 in (6, 7)


@pytest.mark.parametrize("kind", ["fp64", "fp32", "fp16", "bf16", "fp8_e4m3"])
def test_floats_stay(kind):
    values = np.zeros(512, np.uint8)
    change_lone_number(values, kind, np.random.default_rng(1))
    assert not values.any()


class Tables:
    """A table in memory, in front of 16 KiB for each of what the addresses lead to."""

    def __init__(self, store, *contents, written=()):
        self.store = store
        self.regions = [self._put(BASE, np.zeros(4096, np.uint8))]
        for number, content in enumerate(contents, 1):
            region = self._put(self.at(number), content)
            self.regions.append(region.model_copy(update={"written": ((0, 4),) if number in written else ()}))

    @staticmethod
    def at(number, element=0):
        return BASE + (number << 14) + 4 * element

    def _put(self, address, content):
        with self.store.begin_transaction() as transaction:
            pre = MemoryRef.to(transaction.put_memory(content))
            transaction.publish_objects()
        where = {"base_address": address, "size_bytes": content.nbytes, "pre": pre, "written": ()}
        return capture().regions[0].model_copy(update=where)

    def exchange(self, *addresses):
        words = np.zeros(512, np.uint64)
        words[1 : 1 + len(addresses)] = addresses
        captured = capture().model_copy(update={"regions": tuple(self.regions)})
        exchange_addresses(self.store, captured, self.regions[0], words, np.random.default_rng(1))
        assert not words[0]
        assert not words[1 + len(addresses) :].any()
        return [int(word) for word in words[1 : 1 + len(addresses)]]


def test_addresses_at_equal_distances_are_exchanged(store):
    tables = Tables(store, FLOATS)
    addresses = [tables.at(1, element) for element in (0, 256, 512, 768)]
    made = tables.exchange(*addresses, addresses[0])
    assert sorted(made[:4]) == addresses
    assert made[:4] != addresses
    assert made[4] == made[0]


def test_the_last_address_stays_where_the_others_have_more_room(store):
    tables = Tables(store, FLOATS)
    addresses = [tables.at(1, element) for element in (0, 400, 800)]
    assert tables.exchange(*addresses) == [addresses[1], addresses[0], addresses[2]]


def test_addresses_of_buffers_of_one_size_are_exchanged(store):
    tables = Tables(store, FLOATS, FLOATS[::-1].copy(), FLOATS[:512].copy())
    assert tables.exchange(tables.at(1), tables.at(2), tables.at(3)) == [
        tables.at(2),
        tables.at(1),
        tables.at(3),
    ]


@pytest.mark.parametrize(
    ("contents", "written"),
    [
        ((FLOATS, FLOATS), (2,)),
        ((FLOATS, FLOATS.view(np.int32) % 100), ()),
        ((np.arange(1024, dtype=np.int32), np.arange(1024, dtype=np.int32)), ()),
        ((FLOATS, FLOATS.astype(np.float16)), ()),
        ((FLOATS, np.zeros(1024, np.float32)), ()),
    ],
    ids=["written", "other-types", "integers", "other-sizes", "zeros"],
)
def test_addresses_that_may_not_stand_for_each_other_stay(store, contents, written):
    tables = Tables(store, *contents, written=written)
    addresses = [tables.at(1), tables.at(2)]
    assert tables.exchange(*addresses) == addresses


def test_addresses_at_other_distances_and_in_the_table_itself_stay(store):
    tables = Tables(store, FLOATS)
    for addresses in (
        [tables.at(1, element) for element in (0, 100, 300)],
        [tables.at(0, element) for element in (0, 256, 512)],
    ):
        assert tables.exchange(*addresses) == addresses
