"""Programs of tests/programs/capture, built once, and the stages on a store of the test's own."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

import pytest
from programs import Build, compile_once, program_named
from softgpu import refusal

from kerncap_stages.rocm_root.enter import MARKER

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stages import Stages

NEWER = "7.2"


@pytest.fixture(scope="session")
def rocm() -> str:
    """The ROCm of the root that the tests run in: 6.4 or 7.2."""
    return str(json.loads(MARKER.read_text())["rocm"])


@pytest.fixture(scope="session")
def program() -> Callable[..., Path]:
    """Path of a test program, by name; for the target that it will run on."""

    def build(name: str, target: str = "gfx90a", opt: str = "O3", rocm: str = "") -> Path:
        found = program_named(name)
        return compile_once(Build(found, target if found.source.suffix == ".hip" else "", opt, rocm=rocm))

    return build


@pytest.fixture(scope="session")
def variant() -> Callable[..., Path]:
    """Path of a code object of a test program's kernels, compiled with macros that change them."""

    def build(name: str, *defines: str, target: str = "gfx90a", opt: str = "O3") -> Path:
        return compile_once(Build(program_named(name), target, opt, defines=defines, device_only=True))

    return build


@pytest.fixture
def newer(stages: Stages, program: Callable[..., Path], rocm: str) -> tuple[Stages, Callable[..., Path]]:
    """The stages, and what builds a test program, in a root of ROCm 7.2: another one, unless ours is that."""
    other = "" if rocm == NEWER else NEWER
    if reason := refusal(other):
        pytest.skip(reason)
    stages.rocm = other
    return stages, partial(program, rocm=other)
