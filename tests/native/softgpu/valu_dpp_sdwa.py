"""DPP and SDWA, every control value, against a description written lane by lane."""

from __future__ import annotations

import numpy as np
import pytest
from instruction_driver import ALL_LANES, DONE, EXEC, LANES, NO_HANDLER, VCC, InstructionDriver, State, vgpr

SDWA, DPP = 249, 250
V_MOV_B32, V_ADD_U32, V_ADD_F32, V_ADD_F16 = 1, 52, 1, 31


def random_state(seed: int, execute: int = ALL_LANES) -> State:
    random = np.random.default_rng(seed)
    return State(vgpr=random.integers(0, 1 << 32, (16, LANES), np.uint32), execute=execute)


def dpp_mov(
    dst: int, src: int, control: int, *, row_mask: int = 15, bank_mask: int = 15, bound: int = 0
) -> list[int]:
    low = 0x3F << 25 | dst << 17 | V_MOV_B32 << 9 | DPP
    return [low, row_mask << 28 | bank_mask << 24 | bound << 19 | control << 8 | src]


def source_lane(control: int, lane: int) -> int | None:
    """Where lane's value comes from, by the manual's names of the controls."""
    row, column = lane & ~15, lane & 15
    if control < 0x100:
        return lane & ~3 | control >> 2 * (lane & 3) & 3
    amount = control & 15
    kind = control >> 4
    if kind == 0x10:  # row_shl
        return lane + amount if column + amount < 16 else None
    if kind == 0x11:  # row_shr
        return lane - amount if column >= amount else None
    if kind == 0x12:  # row_ror
        return row | (column - amount) % 16
    if kind == 0x15:  # row_newbcast
        return row | amount
    fixed = {
        0x130: lane + 1 if lane < 63 else None, 0x134: (lane + 1) % 64, 0x138: lane - 1 if lane > 0 else None,
        0x13C: (lane - 1) % 64, 0x140: row | 15 - column, 0x141: lane & ~7 | 7 - (lane & 7),
        0x142: row - 1 if row > 0 else None, 0x143: 31 if lane >= 32 else None,
    }  # fmt: skip
    return fixed[control]


CONTROLS = [*range(0x100), *range(0x101, 0x110), *range(0x111, 0x120), *range(0x121, 0x130),
            0x130, 0x134, 0x138, 0x13C, 0x140, 0x141, 0x142, 0x143, *range(0x150, 0x160)]  # fmt: skip


@pytest.mark.parametrize("execute", [ALL_LANES, 0xF0F0_1234_FFFF_8001])
@pytest.mark.parametrize("bound", [0, 1])
def test_dpp_takes_each_lane_from_where_the_control_says(
    driver: InstructionDriver, bound: int, execute: int
) -> None:
    for control in CONTROLS:
        before = random_state(control, execute)
        row_mask, bank_mask = (15, 15) if control % 3 else (control * 7 % 16, control * 5 % 16)
        after = driver.run(
            dpp_mov(3, 5, control, row_mask=row_mask, bank_mask=bank_mask, bound=bound), before
        )
        assert after.status == DONE
        for lane in range(LANES):
            source = source_lane(control, lane)
            readable = source is not None and bool(execute >> source & 1)
            enabled = row_mask >> lane // 16 & 1 and bank_mask >> lane % 16 // 4 & 1 and execute >> lane & 1
            expected = before.vgpr[3, lane]
            if enabled and (readable or bound):
                expected = before.vgpr[5, source] if readable else 0
            assert after.vgpr[3, lane] == expected, f"control {control:#x}, lane {lane}"


def test_dpp_controls_that_do_not_exist_are_refused(driver: InstructionDriver) -> None:
    for control in set(range(0x100, 0x160)) - set(CONTROLS):
        assert driver.run(dpp_mov(3, 5, control), random_state(0)).status == NO_HANDLER, hex(control)


def test_dpp_applies_modifiers_after_the_permutation(driver: InstructionDriver) -> None:
    before = random_state(1)
    before.vgpr[4:8] = np.random.default_rng(2).standard_normal((4, LANES)).astype(np.float32).view(np.uint32)
    low = V_ADD_F32 << 25 | 3 << 17 | 6 << 9 | DPP
    for bits in range(16):  # src0_neg, src0_abs, src1_neg, src1_abs
        words = [low, 0xFF << 24 | bits << 20 | 1 << 19 | 0x140 << 8 | 5]
        found = driver.run(words, before).vgpr[3].view(np.float32)
        a = before.vgpr[5].view(np.float32).reshape(4, 16)[:, ::-1].ravel()
        b = before.vgpr[6].view(np.float32)
        a, b = np.abs(a) if bits & 2 else a, np.abs(b) if bits & 8 else b
        assert (found == (-a if bits & 1 else a) + (-b if bits & 4 else b)).all()


def select(value: np.ndarray, selector: int, sign: int) -> np.ndarray:
    """Byte 0 to 3, word 0 or 1, or all of it."""
    width, shift = (
        (8, 8 * selector) if selector < 4 else (16, 16 * (selector - 4)) if selector < 6 else (32, 0)
    )
    field = value >> np.uint32(shift) & np.uint32((1 << width) - 1)
    if sign and width < 32:
        field = (field.astype(np.int64) << 64 - width >> 64 - width).astype(np.uint32)
    return field.astype(np.uint32)


def deposit(old: np.ndarray, value: np.ndarray, selector: int, unused: int) -> np.ndarray:
    if selector == 6:
        return value
    width, shift = (8, 8 * selector) if selector < 4 else (16, 16 * (selector - 4))
    mask = np.uint32(((1 << width) - 1) << shift)
    placed = value << np.uint32(shift) & mask
    if unused == 2:
        return placed | old & ~mask
    if unused == 1:
        above = np.uint32((0xFFFFFFFF << (shift + width)) & 0xFFFFFFFF)
        return np.where(value >> np.uint32(width - 1) & 1, placed | above, placed).astype(np.uint32)
    return placed


def test_sdwa_selects_sources_and_destination(driver: InstructionDriver) -> None:
    low = V_ADD_U32 << 25 | 3 << 17 | 6 << 9 | SDWA
    before = random_state(3, 0xFFFF_0F0F_FFFF_FFFE)
    active = np.array([before.execute >> lane & 1 for lane in range(LANES)], bool)
    for src0 in range(7):
        for src1 in range(7):
            for signs in range(4):
                dst, unused = (src0 * 3 + src1 + signs) % 7, (src0 + src1 * 2 + signs) % 3
                fields = (
                    src1 << 24 | (signs >> 1) << 27 | src0 << 16 | (signs & 1) << 19 | unused << 11 | dst << 8
                )
                after = driver.run([low, fields | 5], before)
                total = select(before.vgpr[5], src0, signs & 1) + select(before.vgpr[6], src1, signs >> 1)
                expected = deposit(before.vgpr[3], total, dst, unused)
                assert (after.vgpr[3] == np.where(active, expected, before.vgpr[3])).all(), (
                    src0,
                    src1,
                    signs,
                    dst,
                    unused,
                )


def test_sdwa_scalar_sources_and_float_modifiers(driver: InstructionDriver) -> None:
    before = random_state(4)
    before.sgpr[7] = 0xC2004400  # halves 4.0 and -3.0
    before.vgpr[6] = 0x3C004000  # 2.0 and 1.0
    low = V_ADD_F16 << 25 | 3 << 17 | 6 << 9 | SDWA
    scalar0 = 1 << 23
    for word in (4, 5):
        for neg, abs_ in ((0, 0), (1, 0), (0, 1), (1, 1)):
            fields = scalar0 | 5 << 24 | abs_ << 21 | neg << 20 | word << 16 | 6 << 8
            found = driver.run([low, fields | 7], before).vgpr[3]
            a = 4.0 if word == 4 else -3.0
            a = abs(a) if abs_ else a
            expected = np.float16((-a if neg else a) + 1.0).view(np.uint16)
            assert (found == expected).all()


def test_sdwa_comparison_writes_the_named_scalar(driver: InstructionDriver) -> None:
    before = random_state(5, 0x0FFF_FFFF_FFFF_FFF0)
    low = 0x3E << 25 | 0xCC << 17 | 6 << 9 | SDWA  # v_cmp_gt_u32
    for sdst in (VCC, 20):
        fields = 4 << 24 | 2 << 16 | ((0x80 | sdst) << 8 if sdst != VCC else 0)
        after = driver.run([low, fields | 5], before)
        truth = select(before.vgpr[5], 2, 0) > select(before.vgpr[6], 4, 0)
        expected = sum(1 << lane for lane in range(LANES) if truth[lane]) & before.execute
        assert after.scalar64(sdst) == expected
        assert after.scalar64(EXEC) == before.execute


def test_dpp_row_broadcast_moves_both_dwords_of_a_double(driver: InstructionDriver) -> None:
    before = random_state(6)
    before.vgpr[4:10] = 0
    for register in (4, 6, 8):
        doubles = np.random.default_rng(register).standard_normal(LANES).view(np.uint64)
        before.vgpr[register], before.vgpr[register + 1] = (
            doubles & np.uint64(0xFFFFFFFF),
            doubles >> np.uint64(32),
        )
    # v_fmac_f64 dpp row_newbcast:3
    after = driver.run([4 << 25 | 8 << 17 | 6 << 9 | DPP, 0xFF << 24 | 0x153 << 8 | 4], before)
    if after.status != DONE:
        pytest.fail(f"status {after.status}")

    def doubles_of(state: State, register: int) -> np.ndarray:
        return (
            state.vgpr[register].astype(np.uint64)
            | state.vgpr[register + 1].astype(np.uint64) << np.uint64(32)
        ).view(np.float64)

    a = np.repeat(doubles_of(before, 4).reshape(4, 16)[:, 3], 16)
    expected = a * doubles_of(before, 6) + doubles_of(before, 8)
    assert np.allclose(doubles_of(after, 8), expected, rtol=1e-15, atol=1e-15)


__all__ = ["vgpr"]
