"""Packed and mixed instructions: the halves that their selectors choose, and signs for each."""

from __future__ import annotations

import numpy as np
from instruction_driver import (
    LANES,
    InstructionDriver,
    State,
    vgpr,
    vop3p,
)  # fmt: skip
from valu_states import floats, halves


def test_packed_selectors_and_signs(driver: InstructionDriver) -> None:
    before = State()
    random = np.random.default_rng(4)
    for register in (0, 2, 4):
        before.vgpr[register] = random.standard_normal(2 * LANES).astype(np.float16).view(np.uint32)
    for bits in range(64):
        op_sel, op_sel_hi, neg, neg_hi = bits & 7, bits >> 3, bits * 5 & 7, bits * 11 >> 1 & 7
        words = vop3p(
            14, 8, vgpr(0), vgpr(2), vgpr(4), op_sel=op_sel, op_sel_hi=op_sel_hi, neg=neg, neg_hi=neg_hi
        )
        found = driver.run(words, before).vgpr[8].view(np.float16).reshape(LANES, 2)
        for half, select, sign in ((0, op_sel, neg), (1, op_sel_hi, neg_hi)):
            a, b, c = (
                before.vgpr[r].view(np.float16).reshape(LANES, 2)[:, select >> i & 1].astype(np.float64)
                * (-1 if sign >> i & 1 else 1)
                for i, r in enumerate((0, 2, 4))
            )
            assert (found[:, half] == (a * b + c).astype(np.float16)).all(), bits


def test_packed_f32_selectors_and_signs(driver: InstructionDriver) -> None:
    before = State()
    before.vgpr[:6] = np.random.default_rng(5).standard_normal((6, LANES)).astype(np.float32).view(np.uint32)
    v = before.vgpr.view(np.float32).astype(np.float64)
    for bits in range(64):
        op_sel, op_sel_hi, neg, neg_hi = bits & 7, bits >> 3, bits * 5 & 7, bits * 11 >> 1 & 7
        words = vop3p(
            48, 8, vgpr(0), vgpr(2), vgpr(4), op_sel=op_sel, op_sel_hi=op_sel_hi, neg=neg, neg_hi=neg_hi
        )
        found = driver.run(words, before).vgpr[8:10].view(np.float32)
        for half, select, sign in ((0, op_sel, neg), (1, op_sel_hi, neg_hi)):
            a, b, c = (v[2 * i + (select >> i & 1)] * (-1 if sign >> i & 1 else 1) for i in range(3))
            assert np.allclose(found[half], a * b + c, rtol=1e-7), bits
        moved = driver.run(vop3p(51, 8, vgpr(0), vgpr(2), op_sel=op_sel & 3), before).vgpr
        assert (moved[8] == before.vgpr[op_sel & 1]).all()
        assert (moved[9] == before.vgpr[2 + (op_sel >> 1 & 1)]).all()


def test_fma_mix_takes_inline_constants_as_halves(driver: InstructionDriver) -> None:
    state = State()
    state.vgpr[0], state.vgpr[2] = halves(3.0), floats(10.0)
    half_one = vop3p(32, 8, vgpr(0), 242, vgpr(2), op_sel_hi=3)
    assert (driver.run(half_one, state).vgpr[8].view(np.float32) == 13.0).all()
    single_one = vop3p(32, 8, vgpr(0), 242, vgpr(2), op_sel_hi=1, neg=2, neg_hi=1)
    assert (driver.run(single_one, state).vgpr[8].view(np.float32) == 7.0).all()
    for opcode, shift in ((33, 0), (34, 16)):
        state.vgpr[8] = 0x12345678
        found = driver.run(vop3p(opcode, 8, vgpr(0), 242, vgpr(2), op_sel_hi=3), state).vgpr[8]
        kept = 0x12340000 if shift == 0 else 0x5678
        assert (found == (np.uint32(np.float16(13.0).view(np.uint16)) << np.uint32(shift) | kept)).all()
