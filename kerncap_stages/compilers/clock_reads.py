"""Tells whether code reads a clock of the GPU: it may then work otherwise at another time."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from kerncap_stages.code.cubin import find_all_code
from kerncap_stages.code.file_format import FileFormat, find_format, strip_comments
from kerncap_stages.code.read import read_code_object
from kerncap_stages.code.sass import reads_clock
from kerncap_stages.errors import KerncapError
from kerncap_stages.machine.temporary import TemporaryFolder

_PTX_CLOCK = re.compile(r"%(?:clock(?:64|_hi)?|globaltimer(?:_lo|_hi)?)\b")
_AMD_CLOCK = re.compile(
    r"\bs_mem(?:real)?time\b|\bs_get_shader_cycles|HW_REG_SHADER_CYCLES|MSG_RTN_GET_REALTIME"
)
# s_memtime and s_memrealtime of gfx9 (AMD's ISA documents, "SMEM"): bits that no operand changes, and values.
_GFX9_BITS = 0xFFFC_0000
_GFX9_CLOCKS = (0xC090_0000, 0xC094_0000)
_MAX_LISTED_BYTES = 4 << 20  # listing more takes seconds


def find_clock_reads(code: bytes) -> bool | None:
    """Whether any kernel or function of a code object reads a clock; None if that cannot be told."""
    form = find_format(code)
    try:
        if form is FileFormat.CUBIN:
            return any(map(reads_clock, find_all_code(code)))
        if form is FileFormat.PTX:
            return _PTX_CLOCK.search(strip_comments(code)) is not None
        return _find_in_amd(code) if form is FileFormat.ELF else None
    except KerncapError:
        return None  # no tool, or one that does not know the GPU


def _find_in_amd(code: bytes) -> bool | None:
    if "gfx9" in read_code_object(code).isa:
        # Each instruction is aligned to four bytes: if the bytes are nowhere, no instruction is.
        words = np.frombuffer(code[: len(code) // 4 * 4], np.uint32) & _GFX9_BITS
        if not any((words == each).any() for each in _GFX9_CLOCKS):
            return False
    if len(code) > _MAX_LISTED_BYTES:
        return None
    # Few variants need LLVM's tools; what finds them takes longer to import than the rest of this module.
    from kerncap_stages.compilers.llvm_tools import run_llvm

    with TemporaryFolder("clocks") as name:
        path = Path(name) / "code"
        path.write_bytes(code)
        done = run_llvm("llvm-objdump", "-d", path)
    return None if done.returncode != 0 else _AMD_CLOCK.search(done.stdout) is not None
