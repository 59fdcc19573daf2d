"""A captured kernel with parameters, and its project."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest
from programs import COMMON_FLAGS, SOURCES, Build, Program, compile_once
from shared import folder_of_run, made_once
from stages import Stages

from kerncap_stages.store import Store

if TYPE_CHECKING:
    from pathlib import Path

SOURCE = SOURCES / "evaluate/tiles.hip"
TARGET = "gfx90a"


@pytest.fixture
def stages(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Stages:
    """Stages on a store that holds the capture, as @capture, and its source; ``project`` is its project."""

    def make(folder: Path) -> str:
        Store.open(folder / "store")
        made = Stages(folder / "store", folder, TARGET)
        app = compile_once(Build(Program(SOURCE), TARGET, "O3"))
        (digest,) = made.capture("tiles", app)
        words = ["hipcc", "-O3", *COMMON_FLAGS, f"--offload-arch={TARGET}", "-c", str(SOURCE)]
        entry = {"directory": str(folder), "file": str(SOURCE), "arguments": words}
        (folder / "compile_commands.json").write_text(json.dumps([entry]))
        found = ("--source-dir", SOURCE.parent, "--compile-commands", "compile_commands.json")
        (source,) = made.run("locate", digest, *found).must().digests
        made.run("generate", source, "--output", "project").must()
        return digest

    folder = folder_of_run(tmp_path_factory) / "tune"
    made_once(folder, make)
    shutil.copytree(folder / "store", tmp_path / "store")
    shutil.copytree(folder / "project", tmp_path / "project")
    return Stages(tmp_path / "store", tmp_path, TARGET)
