"""One program, captured once for all tests here, and its kernels rebuilt in several wrong ways."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest
from demo_tree import make_tree
from programs import COMMON_FLAGS, SOURCES, Build, Program, compile_once
from shared import folder_of_run, made_once
from stages import Stages

from kerncap_stages.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

OUTPUTS = SOURCES / "edit_loop/typed_outputs.hip"
TARGET = "gfx90a"
WAYS = (
    "right",
    "nothing",
    "half",
    "outside",
    "into_input",
    "one_ulp",
    "two_ulp",
    "nan",
    "faster",
    "unset_lds",
)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty one."""
    return Store.open(tmp_path / "store")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """An empty folder for sources."""
    folder = tmp_path / "tree"
    folder.mkdir()
    return folder


@pytest.fixture(scope="module")
def demo_tree(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes]:
    """The demo's sources and the device code of its kernels; tests leave it as it is."""
    return make_tree(tmp_path_factory.mktemp("tree") / "a b")  # a space in the path


@pytest.fixture(scope="session")
def program() -> Callable[..., Path]:
    """Path of a test program, by its name; for the target that it will run on."""

    def build(name: str, target: str = TARGET, opt: str = "O3") -> Path:
        return compile_once(Build(Program(next(iter(SOURCES.glob(f"*/{name}.hip")))), target, opt))

    return build


@pytest.fixture(scope="session")
def variant() -> Callable[[str], Path]:
    """The code object of typed_outputs.hip made wrong in one way, by its name."""

    def build(way: str) -> Path:
        defines = (f"VARIANT={WAYS.index(way)}",)
        return compile_once(Build(Program(OUTPUTS), TARGET, "O3", defines=defines, device_only=True))

    return build


@pytest.fixture(scope="session")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, int], tuple[Path, str]]:
    """A store with the n-th dispatch of a kernel of typed_outputs.hip, and its digest."""

    def once(kernel: str, dispatch: int) -> tuple[Path, str]:
        def capture(folder: Path) -> str:
            Store.open(folder / "store")
            app = compile_once(Build(Program(OUTPUTS), TARGET, "O3"))
            (digest,) = Stages(folder / "store", folder).capture(
                kernel, app, options=("--dispatch", dispatch)
            )
            return digest

        folder = folder_of_run(tmp_path_factory) / "typed_outputs" / f"{kernel}-{dispatch}"
        digest = made_once(folder, capture)
        return folder / "store", digest

    return once


@pytest.fixture(scope="session")
def located(
    captured: Callable[[str, int], tuple[Path, str]], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str, int], tuple[Path, str]]:
    """The same store after kc-locate has found the kernel's source."""

    def once(kernel: str, dispatch: int) -> tuple[Path, str]:
        def locate(folder: Path) -> str:
            store, digest = captured(kernel, dispatch)
            shutil.copytree(store, folder / "store")
            words = ["hipcc", "-O3", *COMMON_FLAGS, f"--offload-arch={TARGET}", "-c", str(OUTPUTS)]
            entry = {"directory": str(folder), "file": str(OUTPUTS), "arguments": words}
            (folder / "compile_commands.json").write_text(json.dumps([entry]))
            command = (digest, "--source-dir", OUTPUTS.parent, "--compile-commands", "compile_commands.json")
            Stages(folder / "store", folder).run("locate", *command).must()
            return digest

        folder = folder_of_run(tmp_path_factory) / "typed_outputs" / f"{kernel}-{dispatch}-located"
        digest = made_once(folder, locate)
        return folder / "store", digest

    return once


@pytest.fixture
def on(
    captured: Callable[[str, int], tuple[Path, str]],
    located: Callable[[str, int], tuple[Path, str]],
    tmp_path: Path,
) -> Callable[..., tuple[Stages, str]]:
    """Stages on a copy of such a store, and the capture's digest; its source is found unless told."""

    def copy(kernel: str, dispatch: int = 0, *, is_located: bool = True) -> tuple[Stages, str]:
        store, digest = (located if is_located else captured)(kernel, dispatch)
        shutil.copytree(store, tmp_path / "store")
        return Stages(tmp_path / "store", tmp_path, TARGET), digest

    return copy
