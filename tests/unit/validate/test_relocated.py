"""Addresses of a variant's own functions and tables are told by their symbols, and by nothing else."""

import numpy as np
import pytest

from kerncap_stages.code.code_object import DataSymbol
from kerncap_stages.validate.compare.relocation import Relocation

CAPTURED, VARIANT = 0x1000_0000, 0x2000_0000
FILES = {
    b"captured": [("table", 0x100, 32), ("f", 0x1000, 64), ("twice", 0x40, 8), ("twice", 0x48, 8)],
    b"variant": [("table", 0x180, 40), ("f.intern.0a", 0x1400, 16), ("g", 0x1800, 8), ("twice", 0x40, 8)],
}


@pytest.fixture
def relocation():
    symbols = {file: [DataSymbol(*each) for each in listed] for file, listed in FILES.items()}
    return Relocation(b"captured", CAPTURED, b"variant", VARIANT, 0x10000, symbols.__getitem__)


def after(relocation, words, before=None):
    chunk = np.array([*words, 7], np.uint64).view(np.uint8)[:-3].copy()  # ends within a word
    old = np.zeros_like(chunk) if before is None else np.array([*before, 7], np.uint64).view(np.uint8)[:-3]
    relocation.apply(chunk, lambda: old)
    return list(chunk[: 8 * len(words)].view(np.uint64))


def test_the_same_place_of_the_same_symbol_is_the_same(relocation):
    assert after(relocation, [VARIANT + 0x180, VARIANT + 0x190, VARIANT + 0x1400]) == [
        *(CAPTURED + 0x100, CAPTURED + 0x110, CAPTURED + 0x1000)
    ]
    assert relocation.words == 3


@pytest.mark.parametrize(
    "address",
    [
        VARIANT + 0x1800,  # a function that the captured code object has not
        VARIANT + 0x40,  # a name that it has twice
        VARIANT + 0x1A0,  # behind the end of the captured table
        VARIANT + 0x17F,
        VARIANT + 0x1410,
        CAPTURED + 0x180,
        0x180,
    ],
)
def test_anything_else_stays(relocation, address):
    assert after(relocation, [address]) == [address]
    assert relocation.words == 0


def test_what_was_there_before_is_no_address_of_the_variant(relocation):
    word = VARIANT + 0x180
    assert after(relocation, [word, word], before=[word, 0]) == [word, CAPTURED + 0x100]
