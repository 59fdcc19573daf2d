"""Which instructions are compared with their pseudo-code, how they are encoded, and on what inputs."""

from __future__ import annotations

import functools
import os
import re
from dataclasses import dataclass

import numpy as np
import pytest
import valu_inputs
from instruction_driver import LANES, VCC, State, vgpr, vop1, vop2, vop3, vop3p, vop3sd, vopc
from pseudocode_parser import parse

NO_WHEEL = "the tinygrad wheel is not installed"
CODE = pytest.importorskip("tinygrad.runtime.autogen.amd.cdna.str_pcode", reason=NO_WHEEL).PCODE
OPERANDS = pytest.importorskip("tinygrad.runtime.autogen.amd.cdna.operands", reason=NO_WHEEL).OPERANDS
TARGET = os.environ["KERNCAP_TEST_TARGET"]
DST, SRC = 8, (0, 2, 4)  # registers
FAMILIES = ("VOP1Op", "VOP2Op", "VOPCOp", "VOP3Op", "VOP3SDOp", "VOP3POp")

DIVISION = "vague or wrong; valu_division.py tests whole divisions"
LEFT_OUT = {
    r"V_DIV_SCALE_F(32|64)": DIVISION,
    r"V_DIV_FMAS_F(32|64)": DIVISION,
    r"V_DIV_FIXUP.*": DIVISION,
    r"V_TRIG_PREOP_F64": "takes bits from the wrong end of 2/pi; valu_division.py tests it",
    r"V_(READ|WRITE)LANE_B32|V_READFIRSTLANE_B32|V_SWAP_B32": "between lanes; valu_modifiers.py tests them",
    r"V_CVT_OFF_F32_I4": "the table is not printed; valu_modifiers.py tests it",
    r"V_CVT_(PK|SR)_(FP8|BF8)_F32|V_CVT_(PK_)?F32_(FP8|BF8)": "not spelled out; valu_fp8.py tests them",
    r"V_.*MFMA.*|V_SMFMAC.*": "one sentence each; matrix_reference.py tests them",
    r"V_(SIN|COS)_F(16|32)": "rounds the angle before it is reduced; valu_transcendental.py tests them",
    r"V_RNDNE_F(16|32|64)": "rounds the sum with a half; valu_transcendental.py tests them",
    r"V_CVT_PKRTZ_F16_F32": "sets the rounding mode; valu_float_modes.py tests it",
    r"V_CVT_PKACCUM_U8_F32": "a slice with variable bounds; valu_modifiers.py tests it",
    # In the tables, but on newer targets only.
    r"V_.*(SCALEF32|BITOP3|PRNG|PERMLANE|ASHR_PK|MINIMUM|MAXIMUM|F8F6F4).*": "gfx950",
    r"V_CVT_PK_B?F16_F32|V_CVT_SR_B?F16_F32|V_CVT_F32_BF16|V_DOT2_F32_BF16": "gfx950",
}
# Numbers that are free, or mean another instruction, on this target.
LEFT_OUT |= {
    "gfx90a": {
        r"V_DOT2C_F32_BF16|V_FMAMK_F32|V_FMAAK_F32": "v_mac_f32, v_madmk_f32 and v_madak_f32 here",
        r"V_MOV_B64|V_LSHL_ADD_U64": "gfx942",
    },
    "gfx942": {r"V_DOT2C_F32_BF16": "gfx950"},
}[TARGET]

FLUSHING = re.compile(r"V_(EXP|LOG|RCP|RCP_IFLAG|RSQ|SQRT)_F32")
EXPONENT = {16: np.uint64(0x7C00), 32: np.uint64(0x7F800000), 64: np.uint64(0x7FF0000000000000)}


def base_name(op) -> str:
    return re.sub(r"_E(32|64)$", "", op.name)


def is_left_out(name: str) -> bool:
    return any(re.fullmatch(pattern, name) for pattern in LEFT_OUT)


CASES = [op for op in CODE if type(op).__name__ in FAMILIES and not is_left_out(base_name(op))]


@functools.cache
def code_of(name: str) -> list[tuple]:
    """The parsed pseudo-code of a mnemonic in upper case."""
    text = next(text for op, text in CODE.items() if type(op).__name__ in FAMILIES and base_name(op) == name)
    return fused(parse(text)) if "MAD_MIX" in name else parse(text)


def fused(node):
    """a * b + c as one: these targets have v_fma_mix under the number of v_mad_mix."""
    if isinstance(node, tuple) and node[:2] == ("binary", "+") and node[2][:2] == ("binary", "*"):
        return ("call", "fma", [node[2][2], node[2][3], node[3]])
    return type(node)(fused(part) for part in node) if isinstance(node, list | tuple) else node


@dataclass(frozen=True)
class Slot:
    """An operand: how many bits, and what kind of values."""

    width: int
    kind: str

    def choose(self, random: np.random.Generator) -> np.ndarray:
        if self.width == 128:
            return valu_inputs.values(random, "integer", 64)
        if self.kind.startswith("pair"):
            return valu_inputs.packed_pair(random, self.kind.removeprefix("pair-"))
        return valu_inputs.values(random, self.kind, self.width)


def slot(info: tuple) -> Slot:
    name, bits = info[0].name, info[1]
    if name.startswith("FMT_NUM_PK"):
        if bits == 64:
            return Slot(64, "pair-float" if name.endswith("F32") else "pair-integer")
        return Slot(32, "packed" if "F16" in name else "integer")
    return Slot(bits, "float" if re.search(r"_F(16|32|64)$", name) else "integer")


def operands(op) -> tuple[list[Slot], Slot]:
    """Sources, and the destination; that of a comparison is a mask."""
    table = OPERANDS[op]
    sources = [slot(table[name]) for name in ("src0", "src1", "vsrc1", "src2") if name in table]
    return sources, slot(table["vdst"]) if "vdst" in table else Slot(64, "integer")


@dataclass(frozen=True)
class Modifiers:
    """What an encoding holds besides registers, and the pseudo-code can ask for."""

    op_sel: int
    op_sel_hi: int
    literal: int

    @classmethod
    def choose(cls, name: str, random: np.random.Generator) -> Modifiers:
        selectors = (int(x) for x in random.integers(0, 8, 2)) if "MIX" in name else (0, 7)
        return cls(*selectors, int(random.choice(np.array(valu_inputs.FLOAT_EDGES[32]))))


def encode(op, modifiers: Modifiers) -> list[int]:
    name, family, number = base_name(op), type(op).__name__, op.value
    registers = [vgpr(r) for r in SRC]
    if family == "VOP1Op":
        return vop1(number, DST, registers[0])
    if family == "VOP2Op":
        has_literal = re.search(r"(FMA|MAD)(MK|AK)", name)
        return vop2(number, DST, registers[0], SRC[1]) + ([modifiers.literal] if has_literal else [])
    if family == "VOPCOp":
        return vopc(number, registers[0], SRC[1])
    if family == "VOP3POp":
        return vop3p(number, DST, *registers, op_sel=modifiers.op_sel, op_sel_hi=modifiers.op_sel_hi)
    if re.search(r"CNDMASK|(ADDC|SUBB|SUBBREV)_CO", name):
        registers[2] = VCC
    if family == "VOP3SDOp":
        return vop3sd(number, DST, VCC, *registers)
    sources, _ = operands(op)
    return vop3(number, VCC if number < 256 else DST, *registers[: max(1, len(sources))])


def prepared(op, random: np.random.Generator, mode: int) -> State:
    """Registers to start from. What hardware is known to treat otherwise than the text is kept out."""
    name, (sources, destination) = base_name(op), operands(op)
    state = State(vgpr=random.integers(0, 1 << 32, (16, LANES), np.uint32), mode=mode)
    read = list(zip(SRC, sources, strict=False))
    if re.search(r"FMAC|_MAC_|DOT\d+C", name):  # the destination is a source, too
        read.append((DST, destination))
    for register, source in read:
        chosen = source.choose(random)
        if FLUSHING.fullmatch(name):
            chosen = without_denormals(chosen, 32)
        if name.startswith("V_FREXP_EXP"):  # the text takes the raw exponent
            ones = np.uint64(0x3C00) << np.uint64(source.width - 16)
            chosen = np.where(chosen & EXPONENT[source.width] == 0, ones, chosen)
        if name.startswith("V_DOT2") and TARGET == "gfx90a":
            packed = source.kind == "packed"
            chosen = without_denormal_halves(chosen) if packed else without_denormals(chosen, 32)
        put(state, register, chosen, source.width)
    state.vcc = int(random.integers(0, 1 << 64, dtype=np.uint64))
    return state


def without_denormals(values: np.ndarray, width: int) -> np.ndarray:
    sign = np.uint64(1 << (width - 1))
    return np.where(values & EXPONENT[width] == 0, values & sign, values)


def without_denormal_halves(packed: np.ndarray) -> np.ndarray:
    low, high = packed & np.uint64(0xFFFF), packed >> np.uint64(16)
    return without_denormals(low, 16) | without_denormals(high, 16) << np.uint64(16)


def put(state: State, register: int, values: np.ndarray, width: int) -> None:
    state.vgpr[register] = values & np.uint64(0xFFFFFFFF)
    if width > 32:
        state.vgpr[register + 1] = values >> np.uint64(32)
