"""Which program really compiles, and which flags it may be given.

Compile commands come from build folders that anybody may have filled. hipcc makes a shell command of its
arguments, so it is never run with any: clang, which it would call, is called instead, without a shell. A
program that is not called like a compiler is not run at all.
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
from kerncap_stages.compilers.flags import compile_flags
from kerncap_stages.errors import DeviceError
from kerncap_stages.machine.run_tool import run_tool

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_APPENDED = "HIPCC_COMPILE_FLAGS_APPEND"
_HIPCC = re.compile(r"hipcc(\.bin|\.pl)?")
_CLANG = re.compile(r"([\w.]+-)*(amd)?clang(\+\+)?(-\d+(\.\d+)*)?")
_OPTIMISATION = re.compile(r"-O([0-3sgz]|fast)?")


@dataclass(frozen=True)
class Compiler:
    """A clang that is run without a shell. ``lead``: flags that hipcc would have put before the others."""

    path: str
    lead: tuple[str, ...] = ()

    def command(self, target: str, flags: Sequence[str], *rest: str) -> list[str]:
        """Words that compile HIP for one GPU target, for the device alone."""
        optimised = any(_OPTIMISATION.fullmatch(flag) for flag in flags)
        lead = [flag for flag in self.lead if not (optimised and _OPTIMISATION.fullmatch(flag))]
        device = ["-x", "hip", f"--offload-arch={target}", "--offload-device-only"]
        return [self.path, *device, *lead, *flags, *rest]


def is_compiler_name(compiler: str) -> bool:
    """Whether a program is called like a compiler that understands HIP."""
    name = Path(compiler).name
    return bool(_HIPCC.fullmatch(name) or _CLANG.fullmatch(name))


def is_clang(compiler: str) -> bool:
    """Whether a program is a clang, by its name."""
    return bool(_CLANG.fullmatch(Path(compiler).name))


def is_hipcc(compiler: str) -> bool:
    """Whether a program is hipcc, by its name."""
    return bool(_HIPCC.fullmatch(Path(compiler).name))


def find_compiler(compiler: str, *, trusted: bool = False) -> Compiler:
    """The clang behind the compiler of a build.

    ``trusted``: the user named it, whatever it is called.
    Raises DeviceError if it is no compiler for HIP, or cannot be found.
    """
    if not trusted and not is_compiler_name(compiler):
        raise DeviceError(
            f"the compile command runs {compiler!r}, which is not called like a compiler for HIP",
            hint="pass --compiler PATH, e.g. hipcc or clang++",
        )
    if is_hipcc(compiler):
        return Compiler(_clang_of(compiler), ("-O3", *_appended_flags()))
    found = shutil.which(compiler)
    if found is None:
        raise DeviceError(f"there is no compiler {compiler}", hint="pass --compiler PATH")
    return Compiler(found)


def _appended_flags() -> tuple[str, ...]:
    """What hipcc adds of the environment; as of any build, without targets and outputs, which are ours."""
    text = os.environ.get(_APPENDED, "")
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise DeviceError(
            f"{_APPENDED}={text!r} cannot be read: {error}", hint=f"unset {_APPENDED}"
        ) from error
    here = Path.cwd()
    return compile_flags(CompileCommand(here, here, ("hipcc", *words)))


def newest_version(name: str) -> str | None:
    """Path of the newest NAME-VERSION on PATH, as distributions call LLVM's programs."""
    pattern = re.compile(re.escape(name) + r"-(\d+)")
    found: dict[int, str] = {}
    for folder in map(Path, os.get_exec_path()):
        for path in folder.glob(f"{glob.escape(name)}-*"):
            match = pattern.fullmatch(path.name)
            if match and os.access(path, os.X_OK):
                found.setdefault(int(match[1]), str(path))
    return found[max(found)] if found else None


@cache
def _clang_of(hipcc: str) -> str:
    """Where hipcc has its clang: the same places in the same order as hipcc itself looks."""
    own = shutil.which(hipcc) or shutil.which("hipcc")
    beside = [Path(own).resolve().parent] if own else []
    folders = [os.environ.get("HIP_CLANG_PATH", ""), *(_told_by_hipconfig(folder) for folder in beside)]
    # hipconfig answers with a folder below ROCM_PATH, whatever lies there.
    neutral = {name: value for name, value in os.environ.items() if name not in ("ROCM_PATH", "HIP_PATH")}
    folders += [_told_by_hipconfig(folder, neutral) for folder in beside if neutral != os.environ]
    roots = [Path(os.environ.get("ROCM_PATH", "/opt/rocm")), *(folder.parent for folder in beside)]
    folders += [str(root / part) for root in roots for part in ("llvm/bin", "lib/llvm/bin")]
    for folder in folders:
        if folder and (found := shutil.which("clang++", path=folder)):
            return found
    found = shutil.which("amdclang++") or shutil.which("clang++") or newest_version("clang++")
    if found is None:
        raise DeviceError(f"there is no clang behind {hipcc}", hint="pass --compiler PATH, e.g. clang++")
    return found


def _told_by_hipconfig(folder: Path, environment: Mapping[str, str] | None = None) -> str:
    """Ask hipconfig, which gets no argument of anybody's but ours."""
    program = folder / "hipconfig"
    if not program.is_file():
        return ""
    try:
        told = run_tool([program, "--hipclangpath"], environment=environment)
    except DeviceError:
        return ""
    return told.stdout.strip() if told.returncode == 0 else ""


@cache
def compiler_version(path: str) -> str:
    """The first line of what a compiler says of itself."""
    told = run_tool([path, "--version"])
    return told.stdout.partition("\n")[0].strip()
