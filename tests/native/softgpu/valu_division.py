"""Whole divisions, as the compiler writes them, must round like the host's; and the table behind range
reduction."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import valu_inputs
from instruction_driver import LANES, VCC, InstructionDriver, State, vgpr, vop1, vop3, vop3sd

NUMERATOR, DENOMINATOR, D, N, R, E, Q, RESULT = 0, 2, 4, 6, 8, 10, 12, 14
ONE = 242  # the inline constant 1.0
NEG_SRC0 = 1
BATCHES = 60


def v(*registers: int) -> list[int]:
    return [vgpr(r) for r in registers]


def scaling(op: int) -> list[int]:
    words = vop3sd(op, D, 20, *v(DENOMINATOR, DENOMINATOR, NUMERATOR))
    return words + vop3sd(op, N, VCC, *v(NUMERATOR, DENOMINATOR, NUMERATOR))


def divide_f32() -> list[int]:
    fma, mul, rcp, fmas, fixup = 459, 261, 34, 482, 478
    words = scaling(480) + vop1(rcp, R, vgpr(D))
    words += vop3(fma, E, vgpr(D), vgpr(R), ONE, neg=NEG_SRC0) + vop3(fma, R, *v(E, R, R))
    words += vop3(mul, Q, *v(N, R))
    words += vop3(fma, E, *v(D, Q, N), neg=NEG_SRC0) + vop3(fma, Q, *v(E, R, Q))
    words += vop3(fma, E, *v(D, Q, N), neg=NEG_SRC0) + vop3(fmas, Q, *v(E, R, Q))
    return words + vop3(fixup, RESULT, *v(Q, DENOMINATOR, NUMERATOR))


def divide_f64() -> list[int]:
    fma, mul, rcp, fmas, fixup = 460, 641, 37, 483, 479
    words = scaling(481) + vop1(rcp, R, vgpr(D))
    for _ in range(2):
        words += vop3(fma, E, vgpr(D), vgpr(R), ONE, neg=NEG_SRC0) + vop3(fma, R, *v(R, E, R))
    words += vop3(mul, Q, *v(N, R))
    words += vop3(fma, E, *v(D, Q, N), neg=NEG_SRC0) + vop3(fmas, Q, *v(E, R, Q))
    return words + vop3(fixup, RESULT, *v(Q, DENOMINATOR, NUMERATOR))


def operand_pairs(width: int):
    """uint64 arrays: every pair of edge values, then random bits, then quotients near the ends of the
    range."""
    edges = np.array(valu_inputs.FLOAT_EDGES[width], np.uint64)
    a, b = (grid.ravel() for grid in np.meshgrid(edges, edges))
    padding = -len(a) % LANES
    yield from zip(np.split(np.pad(a, (0, padding)), (len(a) + padding) // LANES),
                   np.split(np.pad(b, (0, padding)), (len(b) + padding) // LANES), strict=True)  # fmt: skip
    random = np.random.default_rng(width)
    mantissa, bias = (23, 127) if width == 32 else (52, 1023)
    for batch in range(BATCHES):
        pair = [random.integers(0, 1 << width, LANES, np.uint64) for _ in range(2)]
        if batch % 3 == 1:  # the quotient is denormal, or just not
            exponent = random.integers(1, bias, LANES, np.uint64)
            offset = random.integers(0, mantissa + 4, LANES, np.uint64) + np.uint64(bias - 2)
            pair = [with_exponent(pair[0], exponent, width), with_exponent(pair[1], exponent + offset, width)]
        if batch % 3 == 2:  # a denormal operand
            pair[batch % 2] &= np.uint64((1 << (mantissa + 1)) - 1)
        yield pair


def with_exponent(bits: np.ndarray, exponent: np.ndarray, width: int) -> np.ndarray:
    mantissa, limit = (23, 254) if width == 32 else (52, 2046)
    exponent = np.minimum(exponent, np.uint64(limit))
    keep = np.uint64((1 << (width - 1)) | ((1 << mantissa) - 1))
    return (bits & keep) | exponent << np.uint64(mantissa)


@pytest.mark.parametrize("width", [32, 64])
def test_division_rounds_like_the_hosts(driver: InstructionDriver, width: int) -> None:
    words = divide_f32() if width == 32 else divide_f64()
    raw, real = (np.uint32, np.float32) if width == 32 else (np.uint64, np.float64)
    for numerator, denominator in operand_pairs(width):
        state = State()
        for register, values in ((NUMERATOR, numerator), (DENOMINATOR, denominator)):
            state.vgpr[register] = values & np.uint64(0xFFFFFFFF)
            state.vgpr[register + 1] = values >> np.uint64(32)
        after = driver.run(words, state)
        assert after.status == 0
        found = after.vgpr[RESULT].astype(np.uint64) | (
            after.vgpr[RESULT + 1].astype(np.uint64) << np.uint64(32)
        )
        found = found.astype(raw)
        with np.errstate(all="ignore"):
            expected = (numerator.astype(raw).view(real) / denominator.astype(raw).view(real)).view(raw)
        equal = (found == expected) | (np.isnan(found.view(real)) & np.isnan(expected.view(real)))
        lane = int(np.argmin(equal))
        assert equal.all(), (
            f"{numerator[lane]:#x} / {denominator[lane]:#x}: {found[lane]:#x}, not {expected[lane]:#x}"
        )


@pytest.mark.parametrize("opcode", [519, 495], ids=["v_div_fixup_f16", "v_div_fixup_legacy_f16"])
def test_half_fixup_handles_special_operands(driver: InstructionDriver, opcode: int) -> None:
    edges = np.array(valu_inputs.FLOAT_EDGES[16], np.uint32)
    for denominator in edges:
        state = State()
        numerators = np.resize(edges, LANES)
        with np.errstate(all="ignore"):
            expected = numerators.astype(np.uint16).view(np.float16) / np.uint16(denominator).view(np.float16)
        state.vgpr[0], state.vgpr[2], state.vgpr[4] = expected.view(np.uint16), denominator, numerators
        after = driver.run(vop3(opcode, 8, *v(0, 2, 4)), state)
        found = (after.vgpr[8] & 0xFFFF).astype(np.uint16)
        assert (
            (found == expected.view(np.uint16)) | (np.isnan(found.view(np.float16)) & np.isnan(expected))
        ).all()


def two_over_pi_bits(count: int) -> int:
    """floor(2 / pi * 2^count): Machin's formula in integers."""

    def arctan_inverse(x: int, unit: int) -> int:
        total = term = unit // x
        n, sign = 3, -1
        while term:
            term //= x * x
            total += sign * (term // n)
            sign, n = -sign, n + 2
        return total

    unit = 1 << (count + 200)
    pi = 4 * (4 * arctan_inverse(5, unit) - arctan_inverse(239, unit))
    return (2 * unit << count) // pi


def test_trig_preop_gives_segments_of_two_over_pi(driver: InstructionDriver) -> None:
    bits = two_over_pi_bits(1201)
    for exponent in (0, 1000, 1077, 1078, 1100, 1500, 1967, 1968, 2046):
        state = State()
        state.vgpr[1] = exponent << 20
        state.vgpr[2] = np.arange(LANES)
        after = driver.run(vop3(658, 4, *v(0, 2)), state)
        found = (after.vgpr[4].astype(np.uint64) | after.vgpr[5].astype(np.uint64) << np.uint64(32)).view(
            np.float64
        )
        for lane in range(LANES):
            first = (lane % 32) * 53 + max(0, exponent - 1077)
            window = (bits << first >> 1201 - 53) & ((1 << 53) - 1)
            expected = math.ldexp(float(window), -53 - first + (128 if exponent >= 1968 else 0))
            assert Fraction(found[lane]) == Fraction(expected), (exponent, lane)
