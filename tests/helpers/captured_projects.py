"""A captured kernel of the software GPU and its project: made once a run, and copied for each test."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

from programs import COMMON_FLAGS, Build, Program, compile_once
from shared import folder_of_run, made_once
from stages import Stages

from kerncap_stages.store import Store

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

TARGET = "gfx90a"


def copy_project(source: Path, kernel: str, factory: pytest.TempPathFactory, folder: Path) -> Stages:
    """Return stages on a store in ``folder`` with a capture of ``kernel``; ``project`` is its project."""

    def make(place: Path) -> str:
        Store.open(place / "store")
        made = Stages(place / "store", place, TARGET)
        app = compile_once(Build(Program(source), TARGET, "O3"))
        (digest,) = made.capture(kernel, app)
        words = ["hipcc", "-O3", *COMMON_FLAGS, f"--offload-arch={TARGET}", "-c", str(source)]
        entry = {"directory": str(place), "file": str(source), "arguments": words}
        (place / "compile_commands.json").write_text(json.dumps([entry]))
        found = ("--source-dir", source.parent, "--compile-commands", "compile_commands.json")
        (located,) = made.run("locate", digest, *found).must().digests
        made.run("generate", located, "--output", "project").must()
        return digest

    once = folder_of_run(factory) / f"project-{kernel}"
    made_once(once, make)
    shutil.copytree(once / "store", folder / "store")
    shutil.copytree(once / "project", folder / "project")
    return Stages(folder / "store", folder, TARGET)
