"""Whether code reads a clock of the GPU is told from the code, or not at all."""

from __future__ import annotations

import pytest

from kerncap_stages.compilers.clock_reads import find_clock_reads

PTX = """.version 7.0
.target sm_75
.address_size 64
.visible .entry k() {{
  .reg .u64 %rd<2>;
  {instruction}
  ret;
}}
"""


@pytest.mark.parametrize(
    "register", ["clock64", "clock", "clock_hi", "globaltimer", "globaltimer_lo", "globaltimer_hi"]
)
def test_ptx_that_reads_a_clock_is_found(register):
    assert find_clock_reads(PTX.format(instruction=f"mov.u64 %rd1, %{register};").encode()) is True


@pytest.mark.parametrize(
    "instruction", ["", "mov.u32 %r1, %tid.x;", "// mov.u64 %rd1, %clock64;", "mov.u64 %rd1, %clockwork;"]
)
def test_other_ptx_reads_none(instruction):
    assert find_clock_reads(PTX.format(instruction=instruction).encode()) is False


def test_what_is_no_code_tells_nothing():
    assert find_clock_reads(b"not code") is None
