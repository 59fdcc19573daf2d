"""gfx942's 8-bit floats against ml_dtypes' FNUZ types."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import valu_inputs
from instruction_driver import DEFAULT_MODE, LANES, NOT_DECODABLE, InstructionDriver, State, vgpr, vop1, vop3

SATURATE = 1 << 23
FORMATS = {"fp8": (ml_dtypes.float8_e4m3fnuz, 240.0), "bf8": (ml_dtypes.float8_e5m2fnuz, 57344.0)}
SDWA = 249


def values_of(name: str) -> np.ndarray:
    """float32[256]: what each code means."""
    return np.arange(256, dtype=np.uint8).view(FORMATS[name][0]).astype(np.float32)


@pytest.mark.parametrize(("name", "one", "two"), [("fp8", 84, 86), ("bf8", 85, 87)])
def test_every_code_is_unpacked(driver: InstructionDriver, name: str, one: int, two: int) -> None:
    table = values_of(name)
    for first in range(0, 256, LANES):
        state = State()
        codes = np.arange(first, first + LANES, dtype=np.uint32)
        state.vgpr[0] = (
            codes
            | (codes ^ 0x55) << np.uint32(8)
            | (codes ^ 0xAA) << np.uint32(16)
            | (codes ^ 0xFF) << np.uint32(24)
        )
        after = driver.run(vop1(one, 2, vgpr(0)), state)
        if driver.target == "gfx90a":
            assert after.status == NOT_DECODABLE
            return
        parts = [codes, codes ^ 0x55, codes ^ 0xAA, codes ^ 0xFF]
        assert np.array_equal(after.vgpr[2].view(np.float32), table[codes], equal_nan=True)
        for byte in range(4):
            words = [0x3F << 25 | 2 << 17 | one << 9 | SDWA, byte << 16 | 6 << 8]
            found = driver.run(words, state).vgpr[2].view(np.float32)
            assert np.array_equal(found, table[parts[byte]], equal_nan=True)
        for word in range(2):
            words = [0x3F << 25 | 2 << 17 | two << 9 | SDWA, (4 + word) << 16 | 6 << 8]
            found = driver.run(words, state).vgpr[2:4].view(np.float32)
            assert np.array_equal(found[0], table[parts[2 * word]], equal_nan=True)
            assert np.array_equal(found[1], table[parts[2 * word + 1]], equal_nan=True)


@pytest.mark.parametrize(("name", "opcode"), [("fp8", 674), ("bf8", 675)])
def test_packing_rounds_to_nearest_even(driver: InstructionDriver, name: str, opcode: int) -> None:
    if driver.target == "gfx90a":
        assert driver.run(vop3(opcode, 8, vgpr(0), vgpr(2)), State()).status == NOT_DECODABLE
        return
    kind, largest = FORMATS[name]
    random = np.random.default_rng(opcode)
    for turn in range(20):
        state = State(mode=DEFAULT_MODE | (SATURATE if turn % 2 else 0))
        state.vgpr[8] = 0x13579BDF
        for register in (0, 2):
            scaled = (random.standard_normal(LANES) * 2.0 ** random.integers(-14, 14, LANES)).astype(
                np.float32
            )
            state.vgpr[register] = valu_inputs.mixed(
                random, valu_inputs.values(random, "float", 32).astype(np.uint32), scaled.view(np.uint32)
            )
        expected = []
        for register in (0, 2):
            numbers = state.vgpr[register].view(np.float32)
            bounded = np.where(
                np.isinf(numbers) | np.isnan(numbers), numbers, np.clip(numbers, -largest, largest)
            )
            with np.errstate(invalid="ignore"):
                expected.append(
                    (bounded if turn % 2 else numbers).astype(kind).view(np.uint8).astype(np.uint32)
                )
        pair = expected[0] | expected[1] << np.uint32(8)
        low = driver.run(vop3(opcode, 8, vgpr(0), vgpr(2)), state).vgpr[8]
        assert (low == (pair | 0x13570000)).all()
        high = driver.run(vop3(opcode, 8, vgpr(0), vgpr(2), op_sel=8), state).vgpr[8]
        assert (high == (pair << np.uint32(16) | 0x9BDF)).all()


@pytest.mark.parametrize(("name", "opcode", "lost"), [("fp8", 676, 20), ("bf8", 677, 21)])
def test_stochastic_packing_goes_up_as_often_as_the_fraction_says(
    driver, name: str, opcode: int, lost: int
) -> None:
    if driver.target == "gfx90a":
        return  # refused, like the one above
    table = values_of(name)
    for byte in range(4):
        state = State()
        state.vgpr[8] = 0x13579BDF
        state.vgpr[0] = np.float32(1.0 + 0.3 * (table[codes_above_one(name)] - 1.0)).view(np.uint32)
        state.vgpr[2] = (np.arange(LANES, dtype=np.uint64) << np.uint64(26)).astype(np.uint32)
        found = driver.run(vop3(opcode, 8, vgpr(0), vgpr(2), op_sel=byte << 2), state).vgpr[8]
        code = found >> np.uint32(8 * byte) & 0xFF
        went_up = table[code] > 1.0
        assert set(table[code]) == {1.0, float(table[codes_above_one(name)])}
        assert int(went_up.sum()) == round(0.3 * LANES)
        mask = np.uint32(0xFF << 8 * byte)
        assert (found & ~mask == 0x13579BDF & ~mask).all()
        assert lost + {"fp8": 3, "bf8": 2}[name] == 23


def codes_above_one(name: str) -> int:
    """The code of the number after 1.0."""
    return int(np.array(1.0, FORMATS[name][0]).view(np.uint8)) + 1
