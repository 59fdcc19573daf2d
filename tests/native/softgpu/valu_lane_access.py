"""Instructions that move values between lanes, scalars and register files, and odd conversions."""

from __future__ import annotations

import numpy as np
from instruction_driver import (
    LANES,
    InstructionDriver,
    State,
    vgpr,
    vop1,
    vop3,
)  # fmt: skip
from valu_states import MANY, active, floats, state_of


def test_lane_access(driver: InstructionDriver) -> None:
    before = state_of(6, execute=0x0000_0000_FFFF_0100)
    read = vop1(2, 20, vgpr(3))  # v_readfirstlane_b32
    assert driver.run(read, before).sgpr[20] == before.vgpr[3, 8]
    assert driver.run(read, State(vgpr=before.vgpr, execute=0)).sgpr[20] == before.vgpr[3, 0]
    before.sgpr[5], before.sgpr[6] = 64 + 37, 0xCAFE
    assert driver.run(vop3(649, 20, vgpr(3), 5), before).sgpr[20] == before.vgpr[3, 37]
    assert driver.run(vop3(649, 20, vgpr(3), 128 + 9), before).sgpr[20] == before.vgpr[3, 9]
    written = driver.run(vop3(650, 4, 6, 5), before).vgpr  # EXEC does not matter
    assert written[4, 37] == 0xCAFE
    assert (np.delete(written[4], 37) == np.delete(before.vgpr[4], 37)).all()
    swapped = driver.run(vop1(81, 2, vgpr(3)), before).vgpr
    on = active(before.execute)
    assert (swapped[2] == np.where(on, before.vgpr[3], before.vgpr[2])).all()
    assert (swapped[3] == np.where(on, before.vgpr[2], before.vgpr[3])).all()


def test_accumulation_registers_move_under_exec(driver: InstructionDriver) -> None:
    before = state_of(7, execute=MANY)
    before.agpr = np.random.default_rng(8).integers(0, 1 << 32, (8, LANES), np.uint32)
    on = active(MANY)
    read = driver.run([0x1A7 << 23 | 88 << 16 | 3, vgpr(5)], before)
    assert (read.vgpr[3] == np.where(on, before.agpr[5], before.vgpr[3])).all()
    written = driver.run([0x1A7 << 23 | 89 << 16 | 5, vgpr(3)], before)
    assert (written.agpr[5] == np.where(on, before.vgpr[3], before.agpr[5])).all()
    moved = driver.run(vop1(82, 2, vgpr(6)), before)
    assert (moved.agpr[2] == np.where(on, before.agpr[6], before.agpr[2])).all()


def test_small_conversions(driver: InstructionDriver) -> None:
    state = State()
    state.vgpr[0] = np.arange(LANES)
    table = np.array([0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1]) / 16
    assert (driver.run(vop1(14, 1, vgpr(0)), state).vgpr[1].view(np.float32) == np.resize(table, LANES)).all()
    state.vgpr[0], state.vgpr[2], state.vgpr[8] = (
        floats(2.5, 3.5, 300.0, -1.0, np.nan),
        np.arange(LANES),
        0xAABBCCDD,
    )
    found = driver.run(vop3(496, 8, vgpr(0), vgpr(2)), state).vgpr[8]
    for lane, value in enumerate(found):
        byte = [2, 4, 255, 0, 0][lane % 5]
        shift = 8 * (lane % 4)
        assert value == 0xAABBCCDD & ~(0xFF << shift) | byte << shift
