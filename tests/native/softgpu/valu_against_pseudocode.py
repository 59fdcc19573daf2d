"""Vector instructions against the pseudo-code published by their maker, as the tinygrad wheel carries it.

The pseudo-code is read from the installed wheel and is in no other way part of this project. Where it is
known to be wrong, or says too little, the instruction is left out (pseudocode_cases.py) with the reason.
"""

from __future__ import annotations

import math
import os
import re

import numpy as np
import pytest
from instruction_driver import DEFAULT_MODE, DONE, IEEE_MODE, LANES, InstructionDriver, State
from pseudocode_cases import (
    CASES,
    DST,
    FLUSHING,
    SRC,
    Modifiers,
    Slot,
    base_name,
    code_of,
    encode,
    operands,
    prepared,
)  # fmt: skip
from pseudocode_machine import Machine
from pseudocode_values import MANTISSA, Value, float_of

ROUNDS = int(os.environ.get("KERNCAP_FUZZ_ROUNDS", "2"))
# Correct to one unit in the last place.
APPROXIMATE = re.compile(r"V_(EXP|LOG|RCP|RCP_IFLAG|RSQ|SQRT)_(F16|F32|F64|LEGACY_F32)")


def lane_bits(state: State, register: int, lane: int) -> int:
    return sum(int(state.vgpr[register + d, lane]) << (32 * d) for d in range(4))


def run_other(name: str, values: list[Value], lane: int, ieee: bool) -> Value:
    """v_min_f32 and the like, called from another instruction's code."""
    registers = dict.fromkeys(("S0", "S1", "S2", "D0", "VCC", "EXEC"), 0)
    registers |= {f"S{i}": value.bits for i, value in enumerate(values)}
    machine = Machine(registers, lane, ieee, lambda n, v: run_other(n, v, lane, ieee))
    machine.run(code_of(name.upper()))
    kind, width = re.search(r"([iuf])(\d+)$", name).groups()
    width = 32 if width == "8" else int(width)
    return Value(kind, width, machine.bits("D0") & ((1 << width) - 1))


def expected_machine(op, before: State, modifiers: Modifiers, lane: int) -> Machine:
    """The pseudo-code, run for one lane."""
    ieee = bool(before.mode & IEEE_MODE)
    registers = {f"S{i}": lane_bits(before, register, lane) for i, register in enumerate(SRC)}
    registers |= {"D0": lane_bits(before, DST, lane), "D1": 0, "VCC": before.vcc, "EXEC": before.execute}
    registers |= {"SIMM32": modifiers.literal, "SIMM16": modifiers.literal & 0xFFFF}
    registers |= {"OPSEL": modifiers.op_sel, "OPSEL_HI": modifiers.op_sel_hi}
    machine = Machine(registers, lane, ieee, lambda n, v: run_other(n, v, lane, ieee))
    machine.run(code_of(base_name(op)))
    return machine


def same(name: str, expected: int, found: int, result: Slot) -> bool:
    width = result.width
    if result.kind in ("packed", "pair-float"):
        half = width // 2
        parts = ((expected >> s & ((1 << half) - 1), found >> s & ((1 << half) - 1)) for s in (0, half))
        return all(same(name, e, f, Slot(half, "float")) for e, f in parts)
    if result.kind != "float" or expected == found:
        return expected == found
    wanted, got = float_of(expected, width), float_of(found, width)
    if math.isnan(wanted) or math.isnan(got):  # which NaN is not specified
        return math.isnan(wanted) and math.isnan(got)
    least_normal = 2.0 ** {16: -14, 32: -126, 64: -1022}[width]
    if FLUSHING.fullmatch(name) and abs(wanted) < least_normal:
        return abs(got) <= least_normal
    if name.startswith("V_FRACT") and wanted == 1.0:  # hardware stays below one
        return found == expected - 1
    if APPROXIMATE.fullmatch(name) and math.isfinite(wanted) and math.isfinite(got):
        return abs(wanted - got) <= 2.0 ** (
            math.frexp(max(abs(wanted), least_normal))[1] - 1 - MANTISSA[width]
        )
    return False


def wrong(op, before: State, after: State, modifiers: Modifiers, lane: int) -> str | None:
    """What differs from the pseudo-code in one lane, or None."""
    name, (_, result) = base_name(op), operands(op)
    machine = expected_machine(op, before, modifiers, lane)
    if name.startswith("V_CMP"):
        bit = machine.bits("D0") >> lane & 1
        found = {after.vcc >> lane & 1} | ({after.execute >> lane & 1} if "CMPX" in name else set())
        return None if found == {bit} else f"the condition is not {bit}"
    mask = (1 << result.width) - 1
    expected, found = machine.bits("D0") & mask, lane_bits(after, DST, lane) & mask
    if not same(name, expected, found, result):
        return f"expected {expected:#x}, found {found:#x}"
    carry = None
    if "_CO_" in name:
        carry = machine.bits("VCC") >> lane & 1
    if re.fullmatch("V_MAD_(U64_U32|I64_I32)", name):
        carry = machine.bits("D1") & 1
    return None if carry in (None, after.vcc >> lane & 1) else f"the carry is not {carry}"


@pytest.mark.parametrize("op", CASES, ids=lambda op: f"{type(op).__name__}.{op.name}")
def test_instruction_follows_its_pseudocode(driver: InstructionDriver, op) -> None:
    name, (sources, _) = base_name(op), operands(op)
    random = np.random.default_rng(None if ROUNDS > 2 else op.value)
    for turn in range(ROUNDS):
        modifiers = Modifiers.choose(name, random)
        before = prepared(op, random, DEFAULT_MODE if turn % 2 == 0 else DEFAULT_MODE & ~IEEE_MODE)
        after = driver.run(encode(op, modifiers), before)
        assert after.status == DONE, f"{name}: status {after.status}, detail {after.detail}"
        for lane in range(LANES):
            difference = wrong(op, before, after, modifiers, lane)
            if difference is not None:
                read = zip(SRC, sources, strict=False)
                shown = ", ".join(f"{lane_bits(before, r, lane) & ((1 << s.width) - 1):#x}" for r, s in read)
                pytest.fail(f"{name} of {shown} in lane {lane}, mode {before.mode:#x}: {difference}")
