"""The matrix instructions, and where the elements of their operands lie in registers.

Follows AMD's published matrix calculator, coordinate by coordinate.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import ml_dtypes
import numpy as np
from instruction_driver import LANES, State

BOTH, OLD, NEW = {"gfx90a", "gfx942"}, {"gfx90a"}, {"gfx942"}
# name: opcode, targets. The shape is in the name: M x N x K, then the number of blocks.
DENSE = {
    "f32_32x32x1_2b_f32": (64, BOTH), "f32_16x16x1_4b_f32": (65, BOTH), "f32_4x4x1_16b_f32": (66, BOTH),
    "f32_32x32x2_f32": (68, BOTH), "f32_16x16x4_f32": (69, BOTH),
    "f32_32x32x4_xf32": (63, NEW), "f32_16x16x8_xf32": (62, NEW),
    "f32_32x32x4_2b_f16": (72, BOTH), "f32_16x16x4_4b_f16": (73, BOTH), "f32_4x4x4_16b_f16": (74, BOTH),
    "f32_32x32x8_f16": (76, BOTH), "f32_16x16x16_f16": (77, BOTH),
    "i32_32x32x4_2b_i8": (80, BOTH), "i32_16x16x4_4b_i8": (81, BOTH), "i32_4x4x4_16b_i8": (82, BOTH),
    "i32_32x32x8_i8": (84, OLD), "i32_16x16x16_i8": (85, OLD), "i32_32x32x16_i8": (86, NEW),
    "i32_16x16x32_i8": (87, NEW),
    "f32_32x32x2_2b_bf16": (104, OLD), "f32_16x16x2_4b_bf16": (105, OLD), "f32_4x4x2_16b_bf16": (107, OLD),
    "f32_32x32x4_bf16": (108, OLD), "f32_16x16x8_bf16": (109, OLD),
    "f32_32x32x4_2b_bf16 1k": (99, OLD), "f32_16x16x4_4b_bf16 1k": (100, OLD),
    "f32_4x4x4_16b_bf16 1k": (101, OLD),
    "f32_32x32x8_bf16 1k": (102, OLD), "f32_16x16x16_bf16 1k": (103, OLD),
    "f32_32x32x4_2b_bf16": (93, NEW), "f32_16x16x4_4b_bf16": (94, NEW), "f32_4x4x4_16b_bf16": (95, NEW),
    "f32_32x32x8_bf16": (96, NEW), "f32_16x16x16_bf16": (97, NEW),
    "f64_16x16x4_f64": (110, BOTH), "f64_4x4x4_4b_f64": (111, BOTH),
    "f32_16x16x32_bf8_bf8": (112, NEW), "f32_16x16x32_bf8_fp8": (113, NEW), "f32_16x16x32_fp8_bf8": (114,
    NEW),
    "f32_16x16x32_fp8_fp8": (115, NEW), "f32_32x32x16_bf8_bf8": (116, NEW), "f32_32x32x16_bf8_fp8": (117,
    NEW),
    "f32_32x32x16_fp8_bf8": (118, NEW), "f32_32x32x16_fp8_fp8": (119, NEW),
}  # fmt: skip
SPARSE = {
    "f32_16x16x32_f16": 98, "f32_32x32x16_f16": 100, "f32_16x16x32_bf16": 102, "f32_32x32x16_bf16": 104,
    "i32_16x16x64_i8": 106, "i32_32x32x32_i8": 108, "f32_16x16x64_bf8_bf8": 120, "f32_16x16x64_bf8_fp8": 121,
    "f32_16x16x64_fp8_bf8": 122, "f32_16x16x64_fp8_fp8": 123, "f32_32x32x32_bf8_bf8": 124,
    "f32_32x32x32_bf8_fp8": 125, "f32_32x32x32_fp8_bf8": 126, "f32_32x32x32_fp8_fp8": 127,
}  # fmt: skip
STORED = {
    "f32": np.float32, "xf32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "i8": np.int8,
    "f64": np.float64,
    "fp8": ml_dtypes.float8_e4m3fnuz, "bf8": ml_dtypes.float8_e5m2fnuz,
}  # fmt: skip
A, B, C, D = 16, 32, 48, 96  # registers


@dataclass(frozen=True)
class Shape:
    """Coordinates of elements in registers."""

    result: str
    m: int
    n: int
    k: int
    blocks: int
    type_a: str
    type_b: str

    @classmethod
    def parse(cls, name: str) -> Shape:
        result, m, n, k, blocks, types = re.fullmatch(
            r"(\w\d+)_(\d+)x(\d+)x(\d+)_(?:(\d+)b_)?(\S+)( 1k)?", name
        ).groups()[:6]
        a, b = types.split("_") if "_" in types else (types, types)
        return cls(result, int(m), int(n), int(k), int(blocks or 1), a, b)

    def input_place(self, rows: int, depth: int, block: int, row: int, k: int) -> tuple[int, int]:
        """Lane, and number of the element in it."""
        lanes_for_all_rows = rows * self.blocks
        in_a_lane = depth // (LANES // lanes_for_all_rows)
        return block * rows + k // in_a_lane * lanes_for_all_rows + row, k % in_a_lane

    def output_place(self, block: int, i: int, j: int) -> tuple[int, int]:
        """Register (or pair) and lane."""
        height = 1 if self.result == "f64" else 4
        strips = LANES // self.n  # strips of `height` rows beside each other in a register
        blocks_beside = max(1, LANES * height // (self.m * self.n))
        register = block * (self.m * self.n // LANES) + i // (height * strips) * height + i % height
        lane = block % blocks_beside * self.n + i // height % strips * blocks_beside * self.n + j
        return register, lane


def small_integers(random: np.random.Generator, *shape: int) -> np.ndarray:
    return random.integers(-7, 8, shape).astype(np.float64)


def pack(shape: Shape, values: np.ndarray, kind: str, depth: int) -> np.ndarray:
    """values: float64[blocks, rows, depth] to uint32[registers, 64]."""
    stored = STORED[kind]
    in_a_lane = depth * values.shape[1] * shape.blocks // LANES
    lanes = np.zeros((LANES, in_a_lane), stored)
    for block, row, k in np.ndindex(values.shape):
        lanes[shape.input_place(values.shape[1], depth, block, row, k)] = values[block, row, k]
    return np.ascontiguousarray(lanes.view(np.uint8).view(np.uint32).T)


def pack_results(shape: Shape, values: np.ndarray) -> np.ndarray:
    """values: float64[blocks, m, n] to uint32[registers, 64]."""
    kind = {"f32": np.float32, "i32": np.int32, "f64": np.float64}[shape.result]
    registers = np.zeros((shape.m * shape.n * shape.blocks // LANES, LANES), kind)
    for block, i, j in np.ndindex(values.shape):
        registers[shape.output_place(block, i, j)] = values[block, i, j]
    if shape.result != "f64":
        return registers.view(np.uint32)
    return registers.view(np.uint32).reshape(-1, LANES, 2).transpose(0, 2, 1).reshape(-1, LANES)


def state_with(random: np.random.Generator, **parts: np.ndarray) -> State:
    state = State(
        vgpr=random.integers(0, 1 << 32, (160, LANES), np.uint32), execute=0x123
    )  # EXEC does not apply
    for register, values in zip((A, B, C), parts.values(), strict=False):
        state.vgpr[register : register + len(values)] = values
    return state


def result_of(state: State, shape: Shape) -> np.ndarray:
    count = shape.m * shape.n * shape.blocks // LANES * (2 if shape.result == "f64" else 1)
    return state.vgpr[D : D + count]
