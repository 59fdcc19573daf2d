"""What every back end must hold. Each test runs on the software GPU (hsa) and on an NVIDIA GPU (cuda)."""

from __future__ import annotations

import shutil
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest
from programs import Build, compile_once, program_named
from shared import folder_of_run, made_once
from stages import Stages

from kerncap_stages.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def stages(tmp_path: Path, target: str) -> Stages:
    """The installed executables, with nothing in their store."""
    folder = tmp_path / "work"
    folder.mkdir()
    Store.open(tmp_path / "store")
    return Stages(store=tmp_path / "store", folder=folder, target=target)


def build_program(target: str, name: str) -> Path:
    return compile_once(Build(program_named(name), target, "O3"))


def build_variant(target: str, name: str, *defines: str) -> Path:
    return compile_once(Build(program_named(name), target, "O3", defines=defines, device_only=True))


@pytest.fixture(scope="session")
def program(target: str) -> Callable[[str], Path]:
    """Path of a test program, by name."""
    return partial(build_program, target)


@pytest.fixture(scope="session")
def variant(target: str) -> Callable[..., Path]:
    """Path of a code object of a test program's kernels, compiled with macros that change them."""
    return partial(build_variant, target)


@pytest.fixture
def scaled(stages, program, target, tmp_path_factory):
    """A captured dispatch of a simple kernel, made once and copied into the test's own store."""

    def capture(folder):
        (digest,) = replace(stages, store=folder / "store").capture("scale_into", program("idempotent"))
        return digest

    folder = folder_of_run(tmp_path_factory) / f"scaled-{target}"
    digest = made_once(folder, capture)
    shutil.copytree(folder / "store", stages.store, dirs_exist_ok=True)
    return digest
