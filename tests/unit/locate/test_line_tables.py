"""Where a kernel begins, by the line numbers of a cubin: nvcc's -lineinfo."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncap_stages.code.cubin import read_cubin, read_line_numbers
from kerncap_stages.compilers.line_tables import read_line_tables

GOLDEN = Path(__file__).parents[2] / "golden/cuda"
CODE = (GOLDEN / "lines.cubin").read_bytes()
BEGIN = CODE.index(read_line_numbers(CODE)[0])
SIZE = len(read_line_numbers(CODE)[0])
PLACES = {"made": ("lines.cuh", 5), "hidden": ("lines.cu", 4), "scale": ("lines.cu", 7)}


@pytest.mark.parametrize("name", PLACES)
def test_the_line_is_the_kernels_own_and_not_an_inlined_functions(name):
    symbol = next(symbol for symbol in read_cubin(CODE).kernels if name in symbol)
    tables = read_line_tables(CODE, symbol)
    file, line = PLACES[name]
    assert tables.definition == (Path("/w") / file, line)
    assert set(tables.paths) == {Path("/w/lines.cu"), Path("/w/lines.cuh")}


def test_of_a_kernel_that_is_not_there_only_files_are_told():
    tables = read_line_tables(CODE, "_Z5otherPf")
    assert tables.definition is None
    assert len(tables.paths) == 2


def test_without_line_numbers_there_is_nothing():
    tables = read_line_tables((GOLDEN / "facts.cubin").read_bytes(), "add")
    assert (tables.paths, tables.definition) == ((), None)


@given(st.integers(0, SIZE - 1), st.integers(0, 255))
def test_damaged_line_numbers_are_no_more_than_absent(at, value):
    changed = bytearray(CODE)
    changed[BEGIN + at] = value
    read_line_tables(bytes(changed), "_Z4madePf")  # must end
