"""Every matrix instruction against a product written element by element.

Inputs are small integers, so that any order of summation gives the same bits; rounding is compared apart,
with a tolerance.
"""

from __future__ import annotations

import numpy as np
import pytest
from instruction_driver import DONE, LANES, NO_HANDLER, InstructionDriver, State, mfma, vgpr
from matrix_layout import (
    DENSE,
    SPARSE,
    STORED,
    A,
    B,
    C,
    D,
    Shape,
    pack,
    pack_results,
    result_of,
    small_integers,
    state_with,
)


def here(driver: InstructionDriver, name: str) -> bool:
    return driver.target in DENSE[name][1]


@pytest.mark.parametrize("name", DENSE)
def test_dense_product(driver: InstructionDriver, name: str) -> None:
    if not here(driver, name):
        return
    shape, random = Shape.parse(name), np.random.default_rng(DENSE[name][0])
    a, b = (
        small_integers(random, shape.blocks, shape.m, shape.k),
        small_integers(random, shape.blocks, shape.n, shape.k),
    )
    c = small_integers(random, shape.blocks, shape.m, shape.n) * 9
    state = state_with(
        random,
        a=pack(shape, a, shape.type_a, shape.k),
        b=pack(shape, b, shape.type_b, shape.k),
        c=pack_results(shape, c),
    )
    expected = pack_results(shape, np.einsum("bik,bjk->bij", a, b) + c)
    after = driver.run(mfma(DENSE[name][0], D, vgpr(A), vgpr(B), vgpr(C)), state)
    assert after.status == DONE
    assert (result_of(after, shape) == expected).all()
    # In place, an inline constant as the addend, and everything in accumulation registers.
    in_place = driver.run(mfma(DENSE[name][0], C, vgpr(A), vgpr(B), vgpr(C)), state)
    assert (in_place.vgpr[C : C + len(expected)] == expected).all()
    constant = 129 if shape.result == "i32" else 242
    after = driver.run(mfma(DENSE[name][0], D, vgpr(A), vgpr(B), constant), state)
    assert (result_of(after, shape) == pack_results(shape, np.einsum("bik,bjk->bij", a, b) + 1)).all()
    state.agpr = state.vgpr.copy()
    state.vgpr = np.zeros_like(state.vgpr)
    after = driver.run(mfma(DENSE[name][0], D, vgpr(A), vgpr(B), vgpr(C), acc=3, acc_cd=1), state)
    assert (after.agpr[D : D + len(expected)] == expected).all()


@pytest.mark.parametrize("name", [name for name in DENSE if "b_" in name and "f64" not in name])
def test_blocks_of_a_are_broadcast(driver: InstructionDriver, name: str) -> None:
    if not here(driver, name):
        return
    shape, random = Shape.parse(name), np.random.default_rng(1)
    a, b = (
        small_integers(random, shape.blocks, shape.m, shape.k),
        small_integers(random, shape.blocks, shape.n, shape.k),
    )
    c = small_integers(random, shape.blocks, shape.m, shape.n)
    state = state_with(
        random,
        a=pack(shape, a, shape.type_a, shape.k),
        b=pack(shape, b, shape.type_b, shape.k),
        c=pack_results(shape, c),
    )
    for cbsz in range(5):
        for abid in range(1 << cbsz):
            after = driver.run(
                mfma(DENSE[name][0], D, vgpr(A), vgpr(B), vgpr(C), cbsz=cbsz, abid=abid), state
            )
            if 1 << cbsz > shape.blocks:
                assert after.status == NO_HANDLER
                continue
            taken = [(block >> cbsz << cbsz) + abid for block in range(shape.blocks)]
            expected = pack_results(shape, np.einsum("bik,bjk->bij", a[taken], b) + c)
            assert (result_of(after, shape) == expected).all(), (cbsz, abid)


LANE_PATTERNS = {1: lambda n: n % 32, 2: lambda n: n % 32 + 32, 3: lambda n: (n + 16) % 64,
                 **{p: lambda n, p=p: n % 16 + 16 * (p - 4) for p in range(4, 8)}}  # fmt: skip


@pytest.mark.parametrize("name", [name for name in DENSE if "f64" not in name])
def test_lanes_of_b_are_rearranged(driver: InstructionDriver, name: str) -> None:
    if not here(driver, name):
        return
    shape, random = Shape.parse(name), np.random.default_rng(2)
    a, b = (
        small_integers(random, shape.blocks, shape.m, shape.k),
        small_integers(random, shape.blocks, shape.n, shape.k),
    )
    packed = pack(shape, b, shape.type_b, shape.k)
    zero = np.zeros((shape.blocks, shape.m, shape.n))
    for pattern, lane_of in LANE_PATTERNS.items():
        rearranged = packed[:, [lane_of(lane) for lane in range(LANES)]]
        parts = {"a": pack(shape, a, shape.type_a, shape.k), "c": pack_results(shape, zero)}
        plain = driver.run(
            mfma(DENSE[name][0], D, vgpr(A), vgpr(B), vgpr(C)),
            state_with(random, a=parts["a"], b=rearranged, c=parts["c"]),
        )
        state = state_with(random, a=parts["a"], b=packed, c=parts["c"])
        after = driver.run(mfma(DENSE[name][0], D, vgpr(A), vgpr(B), vgpr(C), blgp=pattern), state)
        assert (result_of(after, shape) == result_of(plain, shape)).all(), pattern


@pytest.mark.parametrize("name", ["f64_16x16x4_f64", "f64_4x4x4_4b_f64"])
def test_doubles_are_negated(driver: InstructionDriver, name: str) -> None:
    shape, random = Shape.parse(name), np.random.default_rng(3)
    a, b = small_integers(random, shape.blocks, shape.m, 4), small_integers(random, shape.blocks, shape.n, 4)
    c = small_integers(random, shape.blocks, shape.m, shape.n) + 0.5
    state = state_with(
        random, a=pack(shape, a, "f64", 4), b=pack(shape, b, "f64", 4), c=pack_results(shape, c)
    )
    for bits in range(1, 8):
        after = driver.run(mfma(DENSE[name][0], D, vgpr(A), vgpr(B), vgpr(C), blgp=bits), state)
        if driver.target == "gfx90a":
            assert after.status == NO_HANDLER
            continue
        signs = [-1 if bits >> i & 1 else 1 for i in range(3)]
        expected = np.einsum("bik,bjk->bij", a * signs[0], b * signs[1]) + c * signs[2]
        assert (result_of(after, shape) == pack_results(shape, expected)).all(), bits


@pytest.mark.parametrize("name", SPARSE)
def test_sparse_product(driver: InstructionDriver, name: str) -> None:
    if driver.target != "gfx942":
        return
    shape, random = Shape.parse(name), np.random.default_rng(SPARSE[name])
    stored, bits = shape.k // 2, 2 * (shape.k // 2) * shape.m // LANES
    for cbsz, abid in [(0, i) for i in range(32 // bits)] + [(1, 1)]:
        kept, b = small_integers(random, 1, shape.m, stored), small_integers(random, 1, shape.n, shape.k)
        c = small_integers(random, 1, shape.m, shape.n)
        dense = np.zeros((1, shape.m, shape.k))
        index = random.integers(0, 1 << 32, LANES, np.uint64)
        first = abid * bits if cbsz == 0 else 0
        for row in range(shape.m):
            for group in range(shape.k // 4):
                for which, at in enumerate(sorted(random.choice(4, 2, replace=False))):
                    s = 2 * group + which
                    lane, element = shape.input_place(shape.m, stored, 0, row, s)
                    dense[0, row, 4 * group + at] = kept[0, row, s]
                    shift = np.uint64(first + 2 * element)
                    index[lane] = index[lane] & ~(np.uint64(3) << shift) | np.uint64(at) << shift
        state = state_with(
            random, a=pack(shape, kept, shape.type_a, stored), b=pack(shape, b, shape.type_b, shape.k)
        )
        addend = pack_results(shape, c)
        state.vgpr[C], state.vgpr[D : D + len(addend)] = index, addend
        after = driver.run(mfma(SPARSE[name], D, vgpr(A), vgpr(B), vgpr(C), cbsz=cbsz, abid=abid), state)
        assert after.status == DONE
        assert (
            result_of(after, shape) == pack_results(shape, np.einsum("bik,bjk->bij", dense, b) + c)
        ).all(), (cbsz, abid)


@pytest.mark.parametrize(
    "name", ["f32_32x32x8_f16", "f32_16x16x16_f16", "f32_32x32x2_f32", "f32_16x16x4_f32"]
)
def test_rounding_stays_within_the_sum_of_magnitudes(driver: InstructionDriver, name: str) -> None:
    shape, random = Shape.parse(name), np.random.default_rng(4)
    kind = STORED[shape.type_a]
    a = random.standard_normal((1, shape.m, shape.k)).astype(kind).astype(np.float64)
    b = random.standard_normal((1, shape.n, shape.k)).astype(kind).astype(np.float64)
    c = random.standard_normal((1, shape.m, shape.n)).astype(np.float32).astype(np.float64)
    state = state_with(
        random,
        a=pack(shape, a, shape.type_a, shape.k),
        b=pack(shape, b, shape.type_b, shape.k),
        c=pack_results(shape, c),
    )
    found = result_of(driver.run(mfma(DENSE[name][0], D, vgpr(A), vgpr(B), vgpr(C)), state), shape).view(
        np.float32
    )
    exact = np.einsum("bik,bjk->bij", a, b) + c
    bound = (np.einsum("bik,bjk->bij", abs(a), abs(b)) + abs(c)) * shape.k * 2.0**-24
    for block, i, j in np.ndindex(exact.shape):
        assert abs(found[shape.output_place(block, i, j)] - exact[block, i, j]) <= bound[block, i, j]


@pytest.mark.parametrize(("name", "tiny"), [("f32_32x32x8_f16", 0x0200), ("f32_16x16x1_4b_f32", 0x00400000)])
def test_denormal_inputs_count_unless_gfx90a_flushes_halves(
    driver: InstructionDriver, name: str, tiny: int
) -> None:
    shape = Shape.parse(name)
    state = State(vgpr=np.zeros((160, LANES), np.uint32))
    state.vgpr[A], state.vgpr[B] = tiny, 0x3C003C00 if "f16" in name else 0x3F800000
    found = result_of(driver.run(mfma(DENSE[name][0], D, vgpr(A), vgpr(B), vgpr(C)), state), shape)
    assert (found != 0).any() == (driver.target == "gfx942" or "f16" not in name)


def test_xf32_rounds_its_inputs_to_ten_bits(driver: InstructionDriver) -> None:
    if driver.target != "gfx942":
        return
    shape = Shape.parse("f32_16x16x8_xf32")
    state = State(vgpr=np.zeros((160, LANES), np.uint32))
    state.vgpr[A, :16] = np.float32(1 + 2.0**-11 + 2.0**-12).view(np.uint32)
    state.vgpr[B, :16] = np.float32(1.0).view(np.uint32)
    found = result_of(driver.run(mfma(62, D, vgpr(A), vgpr(B), vgpr(C)), state), shape).view(np.float32)
    assert (found == np.float32(1 + 2.0**-10)).all()
