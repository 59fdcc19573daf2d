"""What VOP3 adds to an instruction, and what EXEC takes away."""

from __future__ import annotations

import numpy as np
import pytest
from instruction_driver import (
    ALL_LANES,
    DEFAULT_MODE,
    DONE,
    IEEE_MODE,
    LANES,
    NO_HANDLER,
    NOT_DECODABLE,
    VCC,
    InstructionDriver,
    State,
    vgpr,
    vop1,
    vop2,
    vop3,
    vop3p,
    vop3sd,
)  # fmt: skip
from valu_states import DX10_CLAMP, MANY, active, floats, halves, state_of


@pytest.mark.parametrize(
    ("words", "registers"),
    [
        (vop2(52, 8, vgpr(0), 2), [8]), (vop2(31, 8, vgpr(0), 2), [8]), (vop3(640, 8, vgpr(0), vgpr(2)), [8,
        9]),
        (vop3p(15, 8, vgpr(0), vgpr(2)), [8]), (vop3p(50, 8, vgpr(0), vgpr(2)), [8, 9]), (vop2(0, 8,
        vgpr(0), 2), [8]),
        (vop3sd(281, 8, 20, vgpr(0), vgpr(2)), [8]), (vop3(487, 8, vgpr(0), vgpr(2), vgpr(4)), [8, 9, 10,
        11]),
        (vop3(515, 8, vgpr(0), vgpr(2), vgpr(4)), [8]), (vop1(81, 8, vgpr(0)), [8, 0]), (vop1(1, 8,
        vgpr(0)), [8]),
        (vop3(652, 8, vgpr(0), vgpr(2)), [8]), (vop3p(32, 8, vgpr(0), vgpr(2), vgpr(4)), [8]),
        (vop3p(35, 8, vgpr(0), vgpr(2), vgpr(4)), [8]), (vop3(482, 8, vgpr(0), vgpr(2), vgpr(4)), [8]),
        (vop3(257, 8, vgpr(0), vgpr(2), neg=1), [8]), (vop3(488, 8, vgpr(0), vgpr(2), vgpr(4)), [8, 9]),
    ],
)  # fmt: skip
def test_inactive_lanes_keep_their_registers(
    driver: InstructionDriver, words: list[int], registers: list[int]
) -> None:
    before = state_of(1, execute=MANY, vcc=0x5555_AAAA_3333_CCCC)
    after = driver.run(words, before)
    whole = driver.run(words, state_of(1, vcc=0x5555_AAAA_3333_CCCC))
    assert after.status == DONE
    on = active(MANY)
    for register in range(16):
        if register not in registers:
            assert (after.vgpr[register] == before.vgpr[register]).all(), f"v{register} changed"
        else:
            assert (after.vgpr[register][~on] == before.vgpr[register][~on]).all()
            assert (after.vgpr[register][on] == whole.vgpr[register][on]).all()
    assert (whole.vgpr[registers[0]] != before.vgpr[registers[0]]).any()


def test_masks_are_zero_in_inactive_lanes(driver: InstructionDriver) -> None:
    before = state_of(2, execute=MANY)
    assert driver.run([0x3E << 25 | 0xCF << 17 | 2 << 9 | vgpr(0)], before).vcc == MANY  # v_cmp_t_u32
    assert driver.run(vop3(0xCF, 20, vgpr(0), vgpr(2)), before).scalar64(20) == MANY
    carried = driver.run(vop3sd(282, 8, 20, vgpr(0), vgpr(2)), before).scalar64(20)  # v_sub_co_u32
    assert carried == sum(1 << i for i in range(LANES) if before.vgpr[0, i] < before.vgpr[2, i]) & MANY
    after = driver.run([0x3E << 25 | 0xD9 << 17 | 2 << 9 | vgpr(0)], before)  # v_cmpx_lt_u32
    expected = sum(1 << i for i in range(LANES) if before.vgpr[0, i] < before.vgpr[2, i]) & MANY
    assert (after.vcc, after.execute) == (expected, expected)


SIXTEEN_BIT = {  # opcode: whether the high half of the destination stays
    "v_add_f16": (287, False), "v_mul_lo_u16": (297, False), "v_max_i16": (304, False),
    "v_mad_legacy_f16": (490, False),
    "v_mad_f16": (515, True), "v_fma_f16": (518, True), "v_mad_u16": (516, True), "v_add_i16": (670, True),
    "v_min3_i16": (501, True), "v_med3_f16": (506, True), "v_div_fixup_f16": (519, True),
    "v_cvt_f16_f32": (330, False),
}  # fmt: skip


@pytest.mark.parametrize("name", SIXTEEN_BIT)
def test_op_sel_chooses_halves_and_the_rest_stays_or_clears(driver: InstructionDriver, name: str) -> None:
    opcode, keeps = SIXTEEN_BIT[name]
    before = state_of(3)
    shown = {
        bits: driver.run(vop3(opcode, 8, vgpr(0), vgpr(2), vgpr(4), op_sel=bits), before).vgpr[8]
        for bits in range(16)
    }
    for bits in range(8):
        selected = state_of(3)
        for i, register in enumerate((0, 2, 4)):
            if bits >> i & 1 and name != "v_cvt_f16_f32":
                selected.vgpr[register] >>= np.uint32(16)
        low = driver.run(vop3(opcode, 8, vgpr(0), vgpr(2), vgpr(4)), selected).vgpr[8] & 0xFFFF
        high_rest = before.vgpr[8] & 0xFFFF0000 if keeps else 0
        assert (shown[bits] == (low | high_rest)).all()
        assert (shown[bits | 8] == (low << np.uint32(16) | before.vgpr[8] & 0xFFFF)).all()


def test_neg_and_abs_work_on_every_source(driver: InstructionDriver) -> None:
    before = State()
    values = [np.float32(x) for x in (-3.0, 5.0, -7.0)]
    for register, value in zip((0, 2, 4), values, strict=True):
        before.vgpr[register] = floats(value)
    for neg in range(8):
        for abs_ in range(8):
            a, b, c = (
                (-1 if neg >> i & 1 else 1) * (abs(x) if abs_ >> i & 1 else x) for i, x in enumerate(values)
            )
            found = (
                driver.run(vop3(459, 8, vgpr(0), vgpr(2), vgpr(4), neg=neg, abs_=abs_), before)
                .vgpr[8]
                .view(np.float32)
            )
            assert (found == a * b + c).all()
    # As bits, where nothing is computed: v_cndmask_b32.
    selected = driver.run(
        vop3(256, 8, vgpr(0), vgpr(2), VCC, neg=1, abs_=2), State(vgpr=before.vgpr, vcc=0xFFFFFFFF)
    )
    assert (selected.vgpr[8].view(np.float32) == np.where(np.arange(LANES) < 32, 5.0, 3.0)).all()


def test_clamp_of_floats(driver: InstructionDriver) -> None:
    values = (-1.0, -0.0, 0.25, 1.0, 1.5, np.inf, -np.inf, np.nan)
    expected = np.resize(np.array([0, 0, 0.25, 1, 1, 1, 0, 0], np.float32), LANES)
    for mode, nan in ((DEFAULT_MODE, 0.0), (DEFAULT_MODE & ~DX10_CLAMP, np.nan)):
        state = State(mode=mode)
        state.vgpr[0] = floats(*values)
        wanted = np.where(np.isnan(state.vgpr[0].view(np.float32)), np.float32(nan), expected)
        found = driver.run(vop3(261, 8, vgpr(0), 242, clamp=1), state).vgpr[8].view(np.float32)
        assert np.array_equal(found, wanted, equal_nan=True)
        state.vgpr[0] = halves(*values)
        found = (
            driver.run(vop3(290, 8, vgpr(0), 242, clamp=1), state).vgpr[8].astype(np.uint16).view(np.float16)
        )
        assert np.array_equal(found, wanted.astype(np.float16), equal_nan=True)
        doubles = np.resize(np.array(values), LANES).view(np.uint64)
        state.vgpr[0], state.vgpr[1] = doubles & np.uint64(0xFFFFFFFF), doubles >> np.uint64(32)
        after = driver.run(vop3(641, 8, vgpr(0), 242, clamp=1), state)
        found = (after.vgpr[8].astype(np.uint64) | after.vgpr[9].astype(np.uint64) << np.uint64(32)).view(
            np.float64
        )
        assert np.array_equal(found, wanted.astype(np.float64), equal_nan=True)


def test_omod_scales_only_where_ieee_and_denormals_are_off(driver: InstructionDriver) -> None:
    for mode, works in ((0x0C0, True), (DEFAULT_MODE, False), (0x0F0, False), (0x0C0 | IEEE_MODE, False)):
        state = State(mode=mode)
        state.vgpr[0] = floats(3.0, -5.0)
        for omod, factor in enumerate((1.0, 2.0, 4.0, 0.5)):
            found = driver.run(vop3(261, 8, vgpr(0), 242, omod=omod), state).vgpr[8].view(np.float32)
            assert (found == state.vgpr[0].view(np.float32) * (factor if works else 1.0)).all()


def add(a, b, _):
    return a + b


def sub(a, b, _):
    return a - b


def subrev(a, b, _):
    return b - a


def mad(a, b, c):
    return a * b + c


INTEGER_CLAMP = [  # opcode, signed, width, function
    (308, False, 32, add), (309, False, 32, sub),
    (310, False, 32, subrev), (668, True, 32, add),
    (669, True, 32, sub), (294, False, 16, add),
    (670, True, 16, add), (671, True, 16, sub),
    (516, False, 16, mad), (517, True, 16, mad),
]  # fmt: skip


@pytest.mark.parametrize("case", INTEGER_CLAMP, ids=lambda case: str(case[0]))
def test_clamp_of_integers_saturates(driver: InstructionDriver, case: tuple) -> None:
    opcode, signed, width, function = case
    before = state_of(opcode)
    before.vgpr[0, :8] = before.vgpr[2, :8] = [
        0,
        1,
        0x7FFF,
        0x8000,
        0xFFFF,
        0x7FFFFFFF,
        0x80000000,
        0xFFFFFFFF,
    ]
    after = driver.run(vop3(opcode, 8, vgpr(0), vgpr(2), vgpr(4), clamp=1), before)
    kind = {(False, 32): np.uint32, (True, 32): np.int32, (False, 16): np.uint16, (True, 16): np.int16}[
        signed, width
    ]
    sources = [before.vgpr[r].astype(f"u{width // 8}").view(kind) for r in (0, 2, 4)]
    limits = np.iinfo(kind)
    for lane in range(LANES):
        exact = function(*(int(s[lane]) for s in sources))
        bounded = max(limits.min, min(limits.max, exact)) & (1 << width) - 1
        assert int(after.vgpr[8, lane]) & (1 << width) - 1 == bounded, lane


def test_forms_without_meaning_are_refused(driver: InstructionDriver) -> None:
    state = State()
    assert driver.run(vop3(276, 8, vgpr(0), vgpr(2), clamp=1), state).status == NO_HANDLER  # v_or_b32
    assert driver.run(vop3(649, 20, vgpr(3), vgpr(1)), state).status in (
        NO_HANDLER,
        NOT_DECODABLE,
    )  # lane in a vector
    assert active(ALL_LANES).all()
