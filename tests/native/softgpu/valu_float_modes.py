"""Rounding and denormal modes of the MODE register, f32 apart from f16 and f64, against exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import valu_inputs
from instruction_driver import DEFAULT_MODE, LANES, InstructionDriver, State, vgpr, vop1, vop3
from pseudocode_values import BIAS, MANTISSA

NEAREST, UP, DOWN, ZERO = range(4)
TYPES = {16: (np.uint16, np.float16), 32: (np.uint32, np.float32), 64: (np.uint64, np.float64)}


def rounded(value: Fraction, width: int, mode: int) -> float:
    """An exact number, not zero, to that width."""
    magnitude = abs(value)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    exponent = max(exponent - (magnitude < Fraction(2) ** exponent), 1 - BIAS[width])
    unit = Fraction(2) ** (exponent - MANTISSA[width])
    quotient, rest = divmod(magnitude, unit)
    if mode == NEAREST:
        quotient += rest * 2 > unit or (rest * 2 == unit and quotient % 2)
    elif (mode == UP and value > 0) or (mode == DOWN and value < 0):
        quotient += rest > 0
    result = quotient * unit
    sign = -1 if value < 0 else 1
    if result >= Fraction(2) ** (BIAS[width] + 1):
        stays_finite = mode == ZERO or (mode == UP and sign < 0) or (mode == DOWN and sign > 0)
        return sign * (float(np.finfo(TYPES[width][1]).max) if stays_finite else math.inf)
    return sign * float(result)


OPERATIONS = {
    "add": (lambda a, b, _: a + b, {16: 287, 32: 257, 64: 640}),
    "mul": (lambda a, b, _: a * b, {16: 290, 32: 261, 64: 641}),
    "fma": (lambda a, b, c: a * b + c, {16: 518, 32: 459, 64: 460}),
}


def finite(random: np.random.Generator, width: int) -> np.ndarray:
    bits = valu_inputs.values(random, "float", width)
    raw, real = TYPES[width]
    return np.where(np.isfinite(bits.astype(raw).view(real)), bits, np.uint64(0))


def put(state: State, register: int, bits: np.ndarray) -> None:
    state.vgpr[register], state.vgpr[register + 1] = bits & np.uint64(0xFFFFFFFF), bits >> np.uint64(32)


def take(state: State, register: int, width: int) -> np.ndarray:
    raw, real = TYPES[width]
    bits = state.vgpr[register].astype(np.uint64) | state.vgpr[register + 1].astype(np.uint64) << np.uint64(
        32
    )
    return bits.astype(raw).view(real)


@pytest.mark.parametrize("mode", [NEAREST, UP, DOWN, ZERO])
@pytest.mark.parametrize("width", [16, 32, 64])
@pytest.mark.parametrize("name", OPERATIONS)
def test_arithmetic_rounds_as_the_mode_says(
    driver: InstructionDriver, name: str, width: int, mode: int
) -> None:
    exact, opcodes = OPERATIONS[name]
    raw, real = TYPES[width]
    random = np.random.default_rng(width + mode)
    shift = 0 if width == 32 else 2
    for _ in range(8):
        # The other pair of modes is set to something else, so that a mix-up shows.
        other = (mode + 1) % 4
        state = State(mode=(DEFAULT_MODE & ~0xF) | mode << shift | other << (2 - shift))
        operands = [finite(random, width) for _ in range(3)]
        for register, bits in zip((0, 2, 4), operands, strict=True):
            put(state, register, bits)
        after = driver.run(vop3(opcodes[width], 8, vgpr(0), vgpr(2), vgpr(4) if name == "fma" else 0), state)
        numbers = [bits.astype(raw).view(real) for bits in operands]
        for lane, found in enumerate(take(after, 8, width)):
            a, b, c = (Fraction(float(n[lane])) for n in numbers)
            value = exact(a, b, c)
            if value != 0:  # the sign of an exact zero is the host's business
                expected = rounded(value, width, mode)
                assert float(found) == expected, (name, width, mode, float(a), float(b), float(c))


@pytest.mark.parametrize("mode", [NEAREST, UP, DOWN, ZERO])
@pytest.mark.parametrize(
    ("opcode", "source", "result"), [(10, 32, 16), (15, 64, 32)], ids=["v_cvt_f16_f32", "v_cvt_f32_f64"]
)
def test_narrowing_rounds_as_the_results_mode_says(
    driver: InstructionDriver, opcode, source, result, mode
) -> None:
    random = np.random.default_rng(opcode)
    shift = 0 if result == 32 else 2
    state = State(mode=(DEFAULT_MODE & ~0xF) | mode << shift)
    bits = finite(random, source)
    put(state, 0, bits)
    found = take(driver.run(vop1(opcode, 2, vgpr(0)), state), 2, result)
    for x, y in zip(bits.astype(TYPES[source][0]).view(TYPES[source][1]), found, strict=True):
        if x != 0:
            assert float(y) == rounded(Fraction(float(x)), result, mode)


def test_cvt_pkrtz_rounds_toward_zero_in_every_mode(driver: InstructionDriver) -> None:
    random = np.random.default_rng(0)
    for mode in (DEFAULT_MODE, DEFAULT_MODE | UP | UP << 2):
        low, high = finite(random, 32), finite(random, 32)
        state = State(mode=mode)
        put(state, 0, low), put(state, 2, high)
        found = driver.run(vop3(662, 4, vgpr(0), vgpr(2)), state).vgpr[4]
        for bits, halves in ((low, found & 0xFFFF), (high, found >> 16)):
            for x, y in zip(
                bits.astype(np.uint32).view(np.float32),
                halves.astype(np.uint16).view(np.float16),
                strict=True,
            ):
                if x != 0:
                    assert float(y) == rounded(Fraction(float(x)), 16, ZERO)


DENORMAL = {16: 0x0123, 32: 0x00012345, 64: 0x0000123456789ABC}
ONE = {16: 0x3C00, 32: 0x3F800000, 64: 0x3FF0000000000000}
TINY = {16: 0x0400, 32: 0x00800000, 64: 0x0010000000000000}
HALF = {16: 0x3800, 32: 0x3F000000, 64: 0x3FE0000000000000}


@pytest.mark.parametrize("width", [16, 32, 64])
@pytest.mark.parametrize("keep", range(4))
def test_denormals_are_flushed_as_the_mode_says(driver: InstructionDriver, width: int, keep: int) -> None:
    """Bit 0 of the field keeps denormal sources, bit 1 denormal results."""
    shift = 4 if width == 32 else 6
    other = 6 if width == 32 else 4
    for other_keep in (0, 3):
        state = State(mode=(DEFAULT_MODE & ~0xF0) | keep << shift | other_keep << other)
        for register, bits in ((0, DENORMAL[width]), (2, ONE[width]), (4, TINY[width]), (6, HALF[width])):
            put(state, register, np.full(LANES, bits, np.uint64))
        multiply = OPERATIONS["mul"][1][width]
        minimum = {16: 302, 32: 266, 64: 642}[width]
        raw = TYPES[width][0]
        source = take(driver.run(vop3(multiply, 8, vgpr(0), vgpr(2)), state), 8, width)
        result = take(driver.run(vop3(multiply, 8, vgpr(4), vgpr(6)), state), 8, width)
        least = take(driver.run(vop3(minimum, 8, vgpr(0), vgpr(2)), state), 8, width)
        assert (source.view(raw)[0] != 0) == (keep == 3)
        assert (result.view(raw)[0] != 0) == bool(keep & 2)
        assert (least.view(raw)[0] != 0) == (keep == 3)


def test_multiply_add_without_fusion_flushes_and_rounds_twice(driver: InstructionDriver) -> None:
    if driver.target != "gfx90a":
        return  # the opcode is gone
    random = np.random.default_rng(1)
    state = State()
    operands = [valu_inputs.plain_floats(random, 32) for _ in range(3)]
    operands[0][0], operands[1][0] = DENORMAL[32], ONE[32]
    for register, bits in zip((0, 2, 4), operands, strict=True):
        put(state, register, bits)
    a, b, c = (bits.astype(np.uint32).view(np.float32) for bits in operands)
    expected = a * b + c
    expected[0] = c[0]
    assert (take(driver.run(vop3(449, 8, vgpr(0), vgpr(2), vgpr(4)), state), 8, 32) == expected).all()
    put(state, 8, operands[2])
    assert (take(driver.run(vop3(278, 8, vgpr(0), vgpr(2)), state), 8, 32) == expected).all()


def test_fp16_overflow_mode_keeps_results_finite(driver: InstructionDriver) -> None:
    state = State(mode=DEFAULT_MODE | 1 << 23)
    state.vgpr[0], state.vgpr[2] = 0x7BFF, 0x4000
    assert (driver.run(vop3(290, 4, vgpr(0), vgpr(2)), state).vgpr[4] == 0x7BFF).all()
    state.vgpr[0] = 0x7C00  # an infinity that came in stays
    assert (driver.run(vop3(290, 4, vgpr(0), vgpr(2)), state).vgpr[4] == 0x7C00).all()
