"""Scalar instructions against the pseudo-code published by their maker: see valu_against_pseudocode.py."""

from __future__ import annotations

import re

import numpy as np
import pytest
from instruction_driver import DONE, InstructionDriver, State, sop1, sop2, sopc, sopk
from pseudocode_cases import CODE, OPERANDS
from pseudocode_machine import Machine
from pseudocode_parser import parse
from pseudocode_values import Value, integer
from valu_inputs import INTEGER_EDGES

STATES = 48  # for each instruction
DST, SRC = 20, (4, 8)  # registers
M0 = 124
S_CMP_EQ_U32, S_CMP_LG_U32 = 6, 7
FAMILIES = ("SOP1Op", "SOP2Op", "SOPCOp", "SOPKOp")
LEFT_OUT = {
    r"S_(GET|SET|SWAP)PC_B64|S_CALL_B64": "the program counter; the engine's tests and every function call",
    r"S_RFE_B64|S_CBRANCH_.*|S_SETVSKIP": "refused: no compiler emits them for these targets",
    r"S_MOVREL[SD]_B(32|64)": "an array of registers; tested below",
    r"S_SET_GPR_IDX_(ON|IDX)": "changes how the next instructions are read; tested below and by programs",
    r"S_(GETREG|SETREG(_IMM32)?)_B32": "hardware registers; float_modes.hip sets and reads them",
}
CASES = [
    op for op in CODE if type(op).__name__ in FAMILIES and not any(re.fullmatch(p, op.name) for p in LEFT_OUT)
]


def code_of(op) -> list[tuple]:
    """Parsed; `a[b +: c]`, c bits from b up, spelled out."""
    return parse(re.sub(r"\[([^\[\]]+?) \+: ([^\[\]]+?)\]", r"[(\1) + (\2) - 1 : (\1)]", CODE[op]))


def width_of(op, name: str) -> int:
    return OPERANDS[op][name][1] if name in OPERANDS[op] else 0


def anything(random: np.random.Generator) -> int:
    """32 bits: edges, small numbers, single bits, noise."""
    match random.integers(0, 4):
        case 0:
            return int(random.choice(INTEGER_EDGES))
        case 1:
            return int(random.integers(0, 130))
        case 2:
            return (1 << int(random.integers(0, 32))) ^ (0xFFFFFFFF if random.integers(0, 2) else 0)
        case _:
            return int(random.integers(0, 1 << 32))


def prepared(random: np.random.Generator) -> State:
    state = State(vgpr=np.zeros((0, 64), np.uint32))
    for register in range(32):
        state.sgpr[register] = anything(random)
    if random.integers(0, 4) == 0:  # equal operands, zeros and ones in both halves
        state.sgpr[SRC[1] : SRC[1] + 2] = state.sgpr[SRC[0] : SRC[0] + 2]
    if random.integers(0, 6) == 0:
        state.sgpr[SRC[0] : SRC[0] + 2] = 0
    state.sgpr[M0] = anything(random)
    state.execute = anything(random) << 32 | anything(random)
    state.vcc = anything(random) << 32 | anything(random)
    return state


def with_scc(words: list[int], scc: bool) -> list[int]:
    """Behind a comparison that gives SCC that value."""
    return [*sopc(S_CMP_EQ_U32 if scc else S_CMP_LG_U32, 128, 128), *words]


def encode(op, immediate: int) -> list[int]:
    match type(op).__name__:
        case "SOP1Op":
            return sop1(op.value, DST, SRC[0])
        case "SOP2Op":
            return sop2(op.value, DST, *SRC)
        case "SOPCOp":
            return sopc(op.value, *SRC)
        case _:
            return sopk(op.value, SRC[0] if "CMPK" in op.name else DST, immediate)


def expected(op, before: State, immediate: int, scc: bool) -> Machine:
    masked = {name: (1 << width_of(op, name)) - 1 for name in ("ssrc0", "ssrc1", "sdst")}
    registers = {
        "S0": before.scalar64(SRC[0]) & masked["ssrc0"],
        "S1": before.scalar64(SRC[1]) & masked["ssrc1"],
    }
    if type(op).__name__ == "SOPKOp":
        registers = {"S0": immediate, "S1": immediate}
        if "CMPK" in op.name:
            registers["S0"] = before.scalar64(SRC[0]) & 0xFFFFFFFF
    registers |= {"D0": before.scalar64(DST) & masked["sdst"], "EXEC": before.execute}
    machine = Machine(registers, 0, True, lambda _name, _values: Value("u", 32, 0))
    machine.variables["SCC"] = integer(scc, "u", 1)
    machine.run(code_of(op))
    return machine


@pytest.mark.parametrize("op", CASES, ids=lambda op: f"{type(op).__name__}.{op.name}")
def test_instruction_follows_its_pseudocode(driver: InstructionDriver, op) -> None:
    random = np.random.default_rng(op.value)
    batch, wanted = [], []
    for _ in range(STATES):
        before, immediate, scc = prepared(random), anything(random) & 0xFFFF, bool(random.integers(0, 2))
        batch.append((with_scc(encode(op, immediate), scc), before))
        wanted.append(expected(op, before, immediate, scc))
    width = width_of(op, "sdst") if type(op).__name__ != "SOPCOp" and "CMPK" not in op.name else 0
    for (words, before), machine, after in zip(batch, wanted, driver.run_batch(batch), strict=True):
        shown = f"{op.name} {words[1:]}: S0 {before.scalar64(SRC[0]):#x}, S1 {before.scalar64(SRC[1]):#x}"
        assert after.status == DONE, f"{shown}: status {after.status}, detail {after.detail}"
        found = after.scalar64(DST) & ((1 << width) - 1)
        assert found == machine.bits("D0") & ((1 << width) - 1), shown
        assert after.scc == (machine.variables["SCC"].number != 0), f"{shown}: SCC"
        assert after.execute == machine.bits("EXEC") & (1 << 64) - 1, f"{shown}: EXEC"
        untouched = [i for i in range(104) if not DST <= i < DST + width // 32]
        assert (after.sgpr[untouched] == before.sgpr[untouched]).all(), f"{shown}: other registers"


@pytest.mark.parametrize(
    ("op", "size", "reads"), [(42, 1, True), (43, 2, True), (44, 1, False), (45, 2, False)]
)
def test_moves_relative_to_m0(driver: InstructionDriver, op: int, size: int, reads: bool) -> None:
    random = np.random.default_rng(op)
    for offset in (0, 2, 10, 40):
        before = prepared(random)
        before.sgpr[:100] = random.integers(0, 1 << 32, 100, np.uint32)
        before.sgpr[M0] = offset
        after = driver.run(sop1(op, DST, SRC[0]), before)
        assert after.status == DONE
        source, target = (SRC[0] + offset, DST) if reads else (SRC[0], DST + offset)
        wanted = before.sgpr[:100].copy()
        wanted[target : target + size] = before.sgpr[source : source + size]
        assert (after.sgpr[:100] == wanted).all()


def test_index_of_vector_registers_is_a_byte_of_m0(driver: InstructionDriver) -> None:
    before = prepared(np.random.default_rng(1))
    after = driver.run(sop1(50, 0, SRC[0]), before)  # s_set_gpr_idx_idx
    assert after.status == DONE
    assert int(after.sgpr[M0]) == int(before.sgpr[M0]) & 0xFFFFFF00 | int(before.sgpr[SRC[0]]) & 0xFF


def test_every_operand_form_is_read(driver: InstructionDriver) -> None:
    """s_add_u32 of constants, VCC, M0, EXEC, and a literal."""
    before = prepared(np.random.default_rng(2))
    values = {128: 0, 129: 1, 192: 64, 193: 0xFFFFFFFF, 208: 0xFFFFFFF0, 240: 0x3F000000, 242: 0x3F800000,
              247: 0xC0800000, 248: 0x3E22F983, 106: before.vcc & 0xFFFFFFFF, 107: before.vcc >> 32,
              124: int(before.sgpr[M0]), 126: before.execute & 0xFFFFFFFF, 127: before.execute >> 32,
              255: 0x12345678}  # fmt: skip
    for code, value in values.items():
        literal = [value] if code == 255 else []
        after = driver.run(sop2(0, DST, code, SRC[0]) + literal, before)
        assert after.status == DONE
        total = value + int(before.sgpr[SRC[0]])
        assert (int(after.sgpr[DST]), after.scc) == (total & 0xFFFFFFFF, total >> 32 != 0), code
