"""Reads machine instructions of NVIDIA kernels: they alone show whether a kernel uses textures or clocks.

Since Volta an instruction has 16 bytes. Its lowest 8 bits are the operation, the next 4 bits the form of its
operands. NVIDIA documents neither; the numbers are from the output of nvcc 13.0 for sm_75 to sm_120.
"""

from __future__ import annotations

import numpy as np

_INSTRUCTION_BYTES = 16
_OPCODE = 0xFFF
# TEX, TLD4, TLD, TMML, TXD, TXQ; and SULD, SUST, SURED and the atomic operations on surfaces.
_TEXTURES = (range(0x60, 0x71), (0x3, 0x5, 0xB, 0xF))
_SURFACES = (range(0x94, 0xA0), (0x3, 0x5, 0x9, 0xB, 0xF))
_OPCODES = [
    operands << 8 | name for names, forms in (_TEXTURES, _SURFACES) for name in names for operands in forms
]
# CS2R, S2R and S2UR; then SR_CLOCKLO, SR_CLOCKHI, SR_GLOBALTIMERLO and SR_GLOBALTIMERHI.
_READS_SPECIAL_REGISTER = (0x805, 0x919, 0x9C3)
_SPECIAL_REGISTER_AT = 9
_CLOCKS = range(0x50, 0x54)


def uses_textures(code: bytes) -> bool:
    """Whether instructions read or write textures or surfaces."""
    whole = len(code) // _INSTRUCTION_BYTES * _INSTRUCTION_BYTES
    words = np.frombuffer(code[:whole], np.uint16)[:: _INSTRUCTION_BYTES // 2]
    # Not np.isin: its first call imports masked arrays, which takes longer than this whole function.
    wanted = np.zeros(_OPCODE + 1, np.bool_)
    wanted[_OPCODES] = True
    return bool(wanted[words & _OPCODE].any())


def reads_clock(code: bytes) -> bool:
    """Whether instructions read a clock: ``%clock``, ``%clock64``, ``%globaltimer`` or a half of one."""
    whole = len(code) // _INSTRUCTION_BYTES * _INSTRUCTION_BYTES
    rows = np.frombuffer(code[:whole], np.uint8).reshape(-1, _INSTRUCTION_BYTES)
    opcodes = (rows[:, 0].astype(np.uint16) | rows[:, 1].astype(np.uint16) << 8) & _OPCODE
    reads = np.logical_or.reduce([opcodes == each for each in _READS_SPECIAL_REGISTER])
    registers = rows[:, _SPECIAL_REGISTER_AT]
    clocks = (registers >= _CLOCKS.start) & (registers < _CLOCKS.stop)
    return bool((reads & clocks).any())
