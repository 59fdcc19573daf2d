"""CUDA's compiler, nvcc.

It is run in an empty folder of ours. nvcc puts ``TOP/lib:`` into LD_LIBRARY_PATH: an empty element is the
current folder, and what it starts would load libraries from there.
"""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.code.kernel_facts import same_but_for_unit
from kerncap_stages.code.ptx import entry_lines
from kerncap_stages.compilers.dependencies import (
    Headers,
    first_error,
    parse_make_rule,
    parse_search_list,
    run_compiler,
)
from kerncap_stages.compilers.line_tables import read_line_tables
from kerncap_stages.compilers.nvcc_flags import SEPARATE
from kerncap_stages.compilers.nvcc_words import is_path
from kerncap_stages.errors import DeviceError
from kerncap_stages.machine.python_packages import package_folders
from kerncap_stages.machine.run_tool import run_tool
from kerncap_stages.machine.temporary import TemporaryFolder

if TYPE_CHECKING:
    from collections.abc import Sequence


_NVCC = re.compile(r"nvcc(-\d+(\.\d+)*)?")
# nvidia-cuda-nvcc and its companions; Triton brings ptxas and cuobjdump.
_IN_PACKAGES = ("nvidia/cu13/bin", "triton/backends/nvidia/bin")


@dataclass(frozen=True)
class NvccTool:
    """An nvcc; see ``toolchain.Tool``."""

    path: str

    def command(self, target: str, flags: Sequence[str], *rest: str) -> list[str]:
        """Words that compile CUDA for one GPU target. ``flags``: of ``nvcc_flags``; ``rest``: ours, paths.

        Raises DeviceError for a path that the shell behind nvcc would read.
        """
        for word in (target, *rest):
            if not is_path(word):
                raise DeviceError(
                    f"nvcc runs a shell, and {word!r} has characters that may mean something to it",
                    hint="rename the file or its folders",
                )
        return [self.path, "-x", "cu", f"-arch={target}", *flags, *rest]

    def headers(self, flags: Sequence[str], unit: Path, directory: Path, target: str) -> Headers:
        """What ``nvcc -M`` lists: the includes of the device's pass and of the host's."""
        with TemporaryFolder("headers") as name:
            folder, output = _two_folders(name)
            rule = output / "rule"
            result = run_compiler(self.command(target, flags, "-M", "-o", str(rule), str(unit)), folder)
            if result.returncode != 0 or not rule.exists():
                raise DeviceError(
                    f"{unit} does not preprocess under its compile command: {first_error(result.stderr)}",
                    hint="check that the build folder is complete (generated headers?) and -D is right",
                )
            prerequisites = parse_make_rule(rule.read_text(encoding="utf-8", errors="surrogateescape"))
            host = [flag for flag in flags if flag.startswith("-ccbin=")]  # it has headers of its own
            words = self.command(target, host, "-E", "-Xcompiler=-v", os.devnull, "-o", os.devnull)
            toolchain = parse_search_list(run_compiler(words, folder).stderr)
        return Headers.of(prerequisites, unit, directory, toolchain)

    def system_folders(self, target: str) -> tuple[Path, ...]:  # noqa: ARG002
        """None: those of the toolkit count as the build's, see ``CudaToolchain.own_folders``."""
        return ()

    def version(self) -> str:
        """The line of its release."""
        return _version(self.path)

    def yields(self, unit: Path, flags: Sequence[str], directory: Path, target: str, symbol: str) -> bool:  # noqa: ARG002
        """Compile to PTX and look for the kernel's entry."""
        ptx = self._made("-ptx", unit, flags, target)
        entries = entry_lines(ptx) if ptx is not None else ()
        return any(same_but_for_unit(entry, symbol) for entry in entries)

    def defined_at(
        self,
        unit: Path,
        flags: Sequence[str],
        directory: Path,  # noqa: ARG002
        target: str,
        symbol: str,
    ) -> tuple[Path, int] | None:
        """Compile for the debugger, which is quick, and read where the kernel was declared."""
        made = self._made("-cubin", unit, (*flags, "-G"), target)
        return None if made is None else read_line_tables(made, symbol).definition

    def device_code(
        self,
        unit: Path,
        flags: Sequence[str],
        directory: Path,  # noqa: ARG002 - absolute flags, in a folder of ours
        target: str,
    ) -> bytes:
        """Compile as the build does."""
        made = self._made("-cubin", unit, flags, target)
        if made is None:
            raise DeviceError(f"{unit} does not compile")
        return made

    def _made(self, form: str, unit: Path, flags: Sequence[str], target: str) -> bytes | None:
        with TemporaryFolder("trial") as name:
            folder, output = _two_folders(name)
            code = output / "code"
            words = self.command(target, flags, "-w", form, "-o", str(code), str(unit))
            done = run_compiler(words, folder).returncode == 0
            if done and form == "-cubin" and SEPARATE in flags:
                part = code.rename(output / "part.cubin")
                link = [self.path, "-dlink", form, f"-arch={target}", "-o", str(code), str(part)]
                done = run_compiler(link, folder).returncode == 0
            return code.read_bytes() if done and code.is_file() else None


def _two_folders(place: Path) -> tuple[Path, Path]:
    """One to run in, which stays empty, and one for outputs."""
    folders = place / "empty", place / "out"
    for folder in folders:
        folder.mkdir()
    return folders


def find_nvcc(compiler: str, *, trusted: bool = False) -> NvccTool:
    """The nvcc of a build; where that is not on this machine, the one that is, unless it is the user's word.

    Raises DeviceError if there is none.
    """
    found = shutil.which(compiler) or (None if trusted else find_cuda_tool("nvcc"))
    if found is None:
        raise DeviceError(
            f"there is no compiler {compiler}",
            hint="put nvcc on PATH, `pip install nvidia-cuda-nvcc nvidia-cuda-cccl`, or pass --compiler PATH",
        )
    return NvccTool(os.path.abspath(found))  # noqa: PTH100 - links stay as they are


def is_nvcc(compiler: str) -> bool:
    """Whether a program is called like nvcc."""
    return bool(_NVCC.fullmatch(Path(compiler).name))


def find_cuda_tool(name: str) -> str | None:
    """A program of the toolkit: on PATH, else in the toolkit's usual places, else of a Python package."""
    homes = [os.environ.get(variable, "") for variable in ("CUDA_HOME", "CUDA_PATH")]
    folders = [f"{home}/bin" for home in (*homes, "/usr/local/cuda") if home]
    folders += [str(packages / place) for packages in package_folders(os.environ) for place in _IN_PACKAGES]
    return shutil.which(name) or shutil.which(name, path=":".join(folders))


@cache
def _version(path: str) -> str:
    try:
        told = run_tool([path, "--version"])
    except DeviceError:
        return ""
    return next((line for line in told.stdout.splitlines() if "release" in line), "").strip()
