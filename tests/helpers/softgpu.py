"""Runs programs on the software GPU as a user would, and says how to run one again by hand."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from functools import cache
from typing import TYPE_CHECKING

from programs import in_rocm

from kerncap_stages.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# The slowest program takes seconds; a hang must not take the whole run with it.
TIME_LIMIT_S = 120


@cache
def refusal(rocm: str) -> str:
    """Why this machine cannot have a root of another ROCm version beside ours; makes it when it can."""
    if not rocm:
        return ""
    made = subprocess.run([*in_rocm(rocm), "true"], capture_output=True, text=True, check=False)
    assert made.returncode in (0, ExitCode.REFUSED), made.stderr
    return made.stderr if made.returncode else ""


def command_for(program: Sequence[str], target: str, *, gpus: int = 1, rocm: str = "") -> list[str]:
    """Words that run a program on the software GPU, in the root of this ROCm version."""
    launcher = shutil.which("kc-softgpu")
    assert launcher, "kc-softgpu is not installed"
    return [*in_rocm(rocm), launcher, "--target", target, "--gpus", str(gpus), "--", *program]


def run(
    program: Sequence[str],
    target: str,
    *,
    gpus: int = 1,
    rocm: str = "",
    variables: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run it to its end; the result's ``args`` is a line to paste into a shell."""
    command = command_for(program, target, gpus=gpus, rocm=rocm)
    settings = dict(variables or {})
    line = " ".join([*(f"{name}={value}" for name, value in settings.items()), shlex.join(command)])
    try:
        done = subprocess.run(command, env=os.environ | settings, capture_output=True, text=True,
                              errors="replace", timeout=TIME_LIMIT_S, check=False)  # fmt: skip
    except subprocess.TimeoutExpired as late:
        raise AssertionError(f"no end after {TIME_LIMIT_S} s: {line}\n{late.stdout}\n{late.stderr}") from late
    done.args = line
    return done


def check(done: subprocess.CompletedProcess[str]) -> None:
    """The program compared something and nothing differed."""
    report = (
        f"make shell ARGS={shlex.quote(done.args)}\nexit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    )
    assert done.returncode == 0, report
    assert ", wrong 0" in done.stdout, report
