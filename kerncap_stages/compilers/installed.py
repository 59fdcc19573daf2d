"""Finds the clang to run for a build's compiler.

Compile commands come from build folders that anybody may have written. hipcc makes a shell command of its
arguments, so it is never run with any: the clang that it would call is run instead, without a shell. A
program that does not have a compiler's name is not run at all.
"""

from __future__ import annotations

import glob
import os
import re
import shlex
import shutil
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.compilers.compile_commands import CompileCommand
from kerncap_stages.compilers.flags import keep_shaping_flags
from kerncap_stages.errors import DeviceError
from kerncap_stages.machine.run_tool import run_tool

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_APPENDED = "HIPCC_COMPILE_FLAGS_APPEND"
_HIPCC = re.compile(r"hipcc(\.bin|\.pl)?")
_CLANG = re.compile(r"([\w.]+-)*(amd)?clang(\+\+)?(-\d+(\.\d+)*)?")
OPTIMISATION = re.compile(r"-O([0-3sgz]|fast)?")  # projects write a level into a script


@dataclass(frozen=True)
class Compiler:
    """A clang that is run without a shell. ``lead``: flags that hipcc would put before the others."""

    path: str
    lead: tuple[str, ...] = ()

    def make_command(self, target: str, flags: Sequence[str], *rest: str) -> list[str]:
        """Return the command that compiles HIP for one GPU target, only for the device."""
        device = ["-x", "hip", f"--offload-arch={target}", "--offload-device-only"]
        return [self.path, *device, *self.complete(flags), *rest]

    def complete(self, flags: Sequence[str]) -> list[str]:
        """Put the flags that hipcc adds before a build's."""
        optimised = any(OPTIMISATION.fullmatch(flag) for flag in flags)
        lead = [flag for flag in self.lead if not (optimised and OPTIMISATION.fullmatch(flag))]
        return [*lead, *flags]


def is_compiler_name(compiler: str) -> bool:
    """Whether a program has the name of a compiler for HIP."""
    name = Path(compiler).name
    return bool(_HIPCC.fullmatch(name) or _CLANG.fullmatch(name))


def is_clang(compiler: str) -> bool:
    """Whether a program is a clang, by its name."""
    return bool(_CLANG.fullmatch(Path(compiler).name))


def is_hipcc(compiler: str) -> bool:
    """Whether a program is hipcc, by its name."""
    return bool(_HIPCC.fullmatch(Path(compiler).name))


def find_compiler(compiler: str, *, trusted: bool = False) -> Compiler:
    """Find the clang that a build's compiler is, or calls.

    trusted: the user named the compiler, so it may have any name.
    Raises DeviceError if it is not a compiler for HIP, or cannot be found.
    """
    if not trusted and not is_compiler_name(compiler):
        raise DeviceError(
            f"the compile command runs {compiler!r}, which does not have the name of a compiler for HIP",
            hint="pass --compiler PATH, e.g. hipcc or clang++",
        )
    if is_hipcc(compiler):
        return Compiler(_find_clang(compiler), ("-O3", *_read_appended_flags()))
    found = shutil.which(compiler)
    if found is None:
        raise DeviceError(f"there is no compiler {compiler}", hint="pass --compiler PATH")
    return Compiler(found)


def _read_appended_flags() -> tuple[str, ...]:
    """Read the flags that hipcc adds from the environment; as for any build, without targets and outputs."""
    text = os.environ.get(_APPENDED, "")
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise DeviceError(
            f"{_APPENDED}={text!r} cannot be read: {error}", hint=f"unset {_APPENDED}"
        ) from error
    here = Path.cwd()
    return keep_shaping_flags(CompileCommand(here, here, ("hipcc", *words)))


def find_newest_version(name: str) -> str | None:
    """Find the newest NAME-VERSION on PATH: distributions give LLVM's programs such names."""
    pattern = re.compile(re.escape(name) + r"-(\d+)")
    found: dict[int, str] = {}
    for folder in map(Path, os.get_exec_path()):
        for path in folder.glob(f"{glob.escape(name)}-*"):
            match = pattern.fullmatch(path.name)
            if match and os.access(path, os.X_OK):
                found.setdefault(int(match[1]), str(path))
    return found[max(found)] if found else None


@cache
def _find_clang(hipcc: str) -> str:
    """Find hipcc's clang, in the same places and the same order as hipcc itself."""
    own = shutil.which(hipcc) or shutil.which("hipcc")
    beside = [Path(own).resolve().parent] if own else []
    folders = [os.environ.get("HIP_CLANG_PATH", ""), *(_ask_hipconfig(folder) for folder in beside)]
    # hipconfig prints a folder below ROCM_PATH even if there is no clang in it.
    neutral = {name: value for name, value in os.environ.items() if name not in ("ROCM_PATH", "HIP_PATH")}
    folders += [_ask_hipconfig(folder, neutral) for folder in beside if neutral != os.environ]
    roots = [Path(os.environ.get("ROCM_PATH", "/opt/rocm")), *(folder.parent for folder in beside)]
    folders += [str(root / part) for root in roots for part in ("llvm/bin", "lib/llvm/bin")]
    for folder in folders:
        if folder and (found := shutil.which("clang++", path=folder)):
            return found
    found = shutil.which("amdclang++") or shutil.which("clang++") or find_newest_version("clang++")
    if found is None:
        raise DeviceError(f"there is no clang for {hipcc}", hint="pass --compiler PATH, e.g. clang++")
    return found


def _ask_hipconfig(folder: Path, environment: Mapping[str, str] | None = None) -> str:
    """Ask hipconfig for the folder of its clang; it gets no argument from a build."""
    program = folder / "hipconfig"
    if not program.is_file():
        return ""
    try:
        told = run_tool([program, "--hipclangpath"], environment=environment)
    except DeviceError:
        return ""
    return told.stdout.strip() if told.returncode == 0 else ""


@cache
def read_compiler_version(path: str) -> str:
    """Read the first line that a compiler prints with ``--version``."""
    told = run_tool([path, "--version"])
    return told.stdout.partition("\n")[0].strip()
