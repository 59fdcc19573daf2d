"""The approximations against double precision: within one unit in the last place, flushing as documented."""

from __future__ import annotations

import math

import numpy as np
import pytest
import valu_inputs
from instruction_driver import LANES, InstructionDriver, State, vgpr, vop1

BATCHES = 40
LEAST_NORMAL = {16: 2.0**-14, 32: 2.0**-126}
TYPES = {16: (np.uint16, np.float16), 32: (np.uint32, np.float32), 64: (np.uint64, np.float64)}


def sine(x: float) -> float:
    """Of an angle in turns, folded exactly to a quarter turn; fixed beyond 256 turns."""
    if not math.isfinite(x):
        return math.nan
    reduced = math.remainder(x if abs(x) <= 256 else 0.0, 1.0)
    folded = math.copysign(0.5, reduced) - reduced if abs(reduced) > 0.25 else reduced
    return math.sin(folded * 2 * math.pi)


def cosine(x: float) -> float:
    if not math.isfinite(x):
        return math.nan
    return math.sin((0.25 - abs(math.remainder(x if abs(x) <= 256 else 0.0, 1.0))) * 2 * math.pi)


def safe(function):
    def of(x: float) -> float:
        try:
            return function(x)
        except (ValueError, ZeroDivisionError, OverflowError):
            return math.nan

    return of


def log2(x: float) -> float:
    return -math.inf if x == 0 else math.log2(x)


def reciprocal(x: float) -> float:
    return math.copysign(math.inf, x) if x == 0 else 1 / x


def exp2(x: float) -> float:
    return math.inf if x > 1023 else 2.0**x


CASES = {
    "exp": (exp2, 32, 65), "log": (log2, 33, 64), "rcp": (reciprocal, 34, 61), "rcp_iflag": (reciprocal, 35,
    None),
    "rsq": (lambda x: reciprocal(math.copysign(math.sqrt(x), x)), 36, 63), "sqrt": (math.sqrt, 39, 62),
    "sin": (sine, 41, 73), "cos": (cosine, 42, 74),
}  # fmt: skip


def flushed(x: float, width: int) -> float:
    return math.copysign(0.0, x) if abs(x) < LEAST_NORMAL[width] else x


def check(name: str, width: int, x: float, found: float) -> str | None:
    """Why `found` is wrong, or None."""
    flushes = width == 32 and name not in ("sin", "cos")
    expected = safe(CASES[name][0])(flushed(x, width) if flushes else x)
    if flushes:
        expected = flushed(expected, width)
    if math.isnan(expected) or math.isnan(found):
        return None if math.isnan(expected) and math.isnan(found) else f"not {expected}"
    largest = float(np.finfo(TYPES[width][1]).max)
    unit = math.ulp(1.0) * 2.0 ** (52 - {16: 10, 32: 23}[width])
    unit *= (
        2.0 ** math.floor(math.log2(max(abs(expected), LEAST_NORMAL[width])))
        if abs(expected) <= largest
        else 1.0
    )
    if abs(expected) >= largest or math.isinf(found):
        return (
            None
            if found == expected or abs(found) == abs(expected) or abs(expected) > largest - unit
            else f"not {expected}"
        )
    return (
        None
        if abs(found - expected) <= 0.51 * unit
        else f"{abs(found - expected) / unit} ulp from {expected}"
    )


@pytest.mark.parametrize("width", [16, 32])
@pytest.mark.parametrize("name", CASES)
def test_approximation_is_within_half_an_ulp(driver: InstructionDriver, name: str, width: int) -> None:
    opcode = CASES[name][1 if width == 32 else 2]
    if opcode is None:
        return  # f32 alone has it
    raw, real = TYPES[width]
    random = np.random.default_rng(opcode)
    for batch in range(BATCHES):
        values = valu_inputs.values(random, "float", width).astype(np.uint32)
        if batch % 2 == 1 and width == 32:  # the range of interest
            values = (
                (random.standard_normal(LANES) * 2.0 ** random.integers(-8, 8))
                .astype(np.float32)
                .view(np.uint32)
            )
        state = State()
        state.vgpr[0] = values
        found = driver.run(vop1(opcode, 1, vgpr(0)), state).vgpr[1].astype(raw).view(real)
        for x, y in zip(values.astype(raw).view(real), found, strict=True):
            wrong = check(name, width, float(x), float(y))
            assert wrong is None, f"{name}({float(x)!r}) = {float(y)!r}: {wrong}"


@pytest.mark.parametrize(("opcode", "width"), [(71, 16), (30, 32), (25, 64)])
def test_rndne_rounds_half_to_even(driver: InstructionDriver, opcode: int, width: int) -> None:
    raw, real = TYPES[width]
    random = np.random.default_rng(width)
    for _ in range(BATCHES):
        bits = valu_inputs.values(random, "float", width)
        halves = (random.integers(-20, 20, LANES) / 2).astype(real).view(raw).astype(np.uint64)
        values = valu_inputs.mixed(random, bits, halves)
        state = State()
        state.vgpr[0], state.vgpr[1] = values & np.uint64(0xFFFFFFFF), values >> np.uint64(32)
        after = driver.run(vop1(opcode, 2, vgpr(0)), state)
        found = (
            (after.vgpr[2].astype(np.uint64) | after.vgpr[3].astype(np.uint64) << np.uint64(32))
            .astype(raw)
            .view(real)
        )
        with np.errstate(invalid="ignore"):
            expected = np.rint(values.astype(raw).view(real))
        equal = (found == expected) & (np.signbit(found) == np.signbit(expected)) | np.isnan(
            found
        ) & np.isnan(expected)
        assert equal.all()
