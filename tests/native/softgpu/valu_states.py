"""States in which vector instructions are run, and their registers' bits."""

from __future__ import annotations

import numpy as np
from instruction_driver import LANES, State

MANY = 0xDEAD_BEEF_0123_4567  # an EXEC with holes
DX10_CLAMP = 0x100


def state_of(seed: int, **fields) -> State:
    return State(vgpr=np.random.default_rng(seed).integers(0, 1 << 32, (16, LANES), np.uint32), **fields)


def floats(*values: float) -> np.ndarray:
    return np.resize(np.array(values, np.float32), LANES).view(np.uint32)


def halves(*values: float) -> np.ndarray:
    return np.resize(np.array(values, np.float16), LANES).view(np.uint16).astype(np.uint32)


def active(execute: int) -> np.ndarray:
    return np.array([execute >> lane & 1 for lane in range(LANES)], bool)
