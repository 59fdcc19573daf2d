"""PyPI's Triton, installed once for all runs of the tests."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from programs import SOURCES, cache_folder

if TYPE_CHECKING:
    from stages import Stages

VERSION = "3.9.0"
PROGRAMS = SOURCES / "triton"


def install_triton(version: str = VERSION) -> Path:
    """The folder that a version is in."""
    return install_once("triton", version)


def install_once(package: str, version: str) -> Path:
    """Install a package of PyPI without what it needs, for all runs of the tests; returns its folder."""
    folder = cache_folder().with_name(f"{package}-{version}")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f".{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            fresh = folder.with_name(f".{folder.name}-{os.getpid()}")
            shutil.rmtree(fresh, ignore_errors=True)
            command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", fresh]
            subprocess.run([*command, f"{package}=={version}"], check=True)
            fresh.rename(folder)
    return folder


def make_environment(triton: Path, cache: Path) -> dict[str, str]:
    """Variables for a program that uses Triton, with a cache of its own for what it compiles."""
    return {
        "PYTHONPATH": f"{PROGRAMS}:{triton}",
        "TRITON_CACHE_DIR": str(cache),
        "TRITON_DEFAULT_FP_FUSION": "1",  # else Triton warns
    }


def _make(project: Path, target: str, stages: Stages, **variables: str) -> subprocess.CompletedProcess[str]:
    beside = Path(sys.executable).parent
    return subprocess.run(
        ["make", "-s", "-C", project, target],
        capture_output=True,
        text=True,
        env={**stages.environment, "PATH": f"{beside}:{stages.environment['PATH']}", **variables},
        check=False,
    )


def edit(project: Path, old: str, new: str) -> None:
    """Replace a text in a project's variant."""
    file = project / "kernel_variant.py"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def generate_and_judge(
    stages: Stages, capture: str, project: Path, wrong: tuple[str, str], right: tuple[str, str] | None = None
) -> None:
    """Make the project of a capture. Its variant is right as it is, and after ``right``; then ``wrong`` is.

    wrong, right: edits, as (old text, new text); the right one comes first.
    """
    source = stages.run("locate", capture).must().digests[0]
    stages.run("generate", source, "-o", project).must()
    assert "Result: PASS  (byte-exact" in judge(project, stages)
    if right is not None:
        edit(project, *right)
        assert "Result: PASS" in judge(project, stages)
    edit(project, *wrong)
    assert "Result: FAIL" in judge(project, stages)


def judge(project: Path, stages: Stages) -> str:
    """Compile a project's variant and return what the verdict prints."""
    built = _make(project, "recompile", stages)
    assert built.returncode == 0, built.stdout + built.stderr
    return _make(project, "validate-variant", stages).stderr
