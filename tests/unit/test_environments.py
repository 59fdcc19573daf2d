"""The environments of `make`: what a command runs in stays until it ends."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from types import ModuleType

TOOL = Path(__file__).parents[2] / "tools/environments.py"
# Uses the environment until its standard input ends.
USER = f"""
import sys, pathlib
sys.path.insert(0, {str(TOOL.parent)!r})
import environments
environments.use(pathlib.Path(sys.argv[1]))
print(flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def environments() -> ModuleType:
    spec = importlib.util.spec_from_file_location("environments", TOOL)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_an_environment_stays_as_long_as_a_command_uses_it(environments: ModuleType, tmp_path: Path) -> None:
    used, unused = tmp_path / "pkg-used", tmp_path / "pkg-unused"
    for folder in (used, unused):
        folder.mkdir()
    command = [sys.executable, "-c", USER, str(used)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as user:
        assert user.stdout
        assert user.stdout.readline() == b"\n"
        environments.remove_unused(tmp_path.glob("pkg-*"))
        assert list(tmp_path.iterdir()) == [used]
        user.communicate()
    environments.remove_unused(tmp_path.glob("pkg-*"))
    assert list(tmp_path.iterdir()) == []


def test_programs_of_the_pinned_packages_see_the_installed_wheel() -> None:
    script = Path(shutil.which("pytest") or "")
    assert script.parent == Path(sys.executable).parent
    assert script.read_text().splitlines()[0] == f"#!{sys.executable}"
