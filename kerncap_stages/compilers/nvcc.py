"""CUDA's compiler, nvcc.

It is run in an empty temporary folder. nvcc puts ``TOP/lib:`` into LD_LIBRARY_PATH: an empty element is the
current folder, and the programs that nvcc starts would load libraries from there.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.code.kernel_facts import find_unmarked_end, is_same_but_for_unit
from kerncap_stages.code.ptx import find_entry_lines
from kerncap_stages.compilers import nvcc_script
from kerncap_stages.compilers.cuda_tools import find_cuda_tool
from kerncap_stages.compilers.dependencies import (
    Headers,
    find_first_error,
    parse_make_rule,
    parse_search_list,
    run_compiler,
)
from kerncap_stages.compilers.line_tables import read_line_tables
from kerncap_stages.compilers.nvcc_flags import SEPARATE
from kerncap_stages.compilers.nvcc_words import is_path
from kerncap_stages.compilers.shortcuts import Shortcut
from kerncap_stages.errors import DeviceError
from kerncap_stages.machine.run_tool import run_tool
from kerncap_stages.machine.temporary import TemporaryFolder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kerncap_stages.compilers.kernel_unit import KernelUnit


_NVCC = re.compile(r"nvcc(-\d+(\.\d+)*)?")


@dataclass(frozen=True)
class NvccTool:
    """An nvcc; see ``toolchain.Tool``."""

    path: str

    def make_command(self, target: str, flags: Sequence[str], *rest: str) -> list[str]:
        """Return the command that compiles CUDA for one GPU target.

        flags: from ``keep_shaping_nvcc_flags``.
        rest: this module's own flags, and paths.
        Raises DeviceError for a path with characters that nvcc's shell would interpret.
        """
        for word in (target, *rest):
            if not is_path(word):
                raise DeviceError(
                    f"nvcc runs a shell, which may interpret characters in {word!r}",
                    hint="rename the file or its folders",
                )
        return [self.path, "-x", "cu", f"-arch={target}", *flags, *rest]

    def list_headers(self, flags: Sequence[str], unit: Path, directory: Path, target: str) -> Headers:
        """List the headers by ``nvcc -M``: those of the device's pass and of the host's."""
        with TemporaryFolder("headers") as name:
            folder, output = _make_two_folders(name)
            rule = output / "rule"
            result = run_compiler(self.make_command(target, flags, "-M", "-o", str(rule), str(unit)), folder)
            if result.returncode != 0 or not rule.exists():
                raise DeviceError(
                    f"{unit} does not preprocess with its compile command: {find_first_error(result.stderr)}",
                    hint="check that the build folder is complete (generated headers?) and -D is right",
                )
            prerequisites = parse_make_rule(rule.read_text(encoding="utf-8", errors="surrogateescape"))
            host = [flag for flag in flags if flag.startswith("-ccbin=")]  # it has its own headers
            words = self.make_command(target, host, "-E", "-Xcompiler=-v", os.devnull, "-o", os.devnull)
            toolchain = parse_search_list(run_compiler(words, folder).stderr)
        return Headers.from_prerequisites(prerequisites, unit, directory, toolchain)

    def list_system_folders(self, target: str) -> tuple[Path, ...]:  # noqa: ARG002
        """List none: the toolkit's folders count as the build's, see ``CudaToolchain.list_own_folders``."""
        return ()

    def read_version(self) -> str:
        """Read the line with the release."""
        return _read_version(self.path)

    def yields(self, unit: Path, flags: Sequence[str], directory: Path, target: str, symbol: str) -> bool:  # noqa: ARG002
        """Compile to PTX, and search the kernel's entry."""
        ptx = self._compile("-ptx", unit, flags, target)
        entries = find_entry_lines(ptx) if ptx is not None else ()
        return any(is_same_but_for_unit(entry, symbol) for entry in entries)

    def find_definition(
        self,
        unit: Path,
        flags: Sequence[str],
        directory: Path,  # noqa: ARG002
        target: str,
        symbol: str,
    ) -> tuple[Path, int] | None:
        """Compile for the debugger, which is fast, and read where the kernel was declared."""
        made = self._compile("-cubin", unit, (*flags, "-G"), target)
        return None if made is None else read_line_tables(made, symbol).definition

    def compile_device_code(
        self,
        unit: Path,
        flags: Sequence[str],
        directory: Path,  # noqa: ARG002 - all flags are absolute, and nvcc runs in an empty folder
        target: str,
    ) -> bytes:
        """Compile with the build's flags."""
        made = self._compile("-cubin", unit, flags, target)
        if made is None:
            raise DeviceError(f"{unit} does not compile")
        return made

    def try_shortcuts(self, unit: KernelUnit, edited: Path | None, *, one_kernel: bool) -> Iterator[Shortcut]:  # noqa: ARG002
        """Compile one kernel by link-time optimisation; see ``nvcc_script``. nvcc precompiles no headers."""
        if not one_kernel or SEPARATE in unit.flags:
            return
        with TemporaryFolder("alone") as name:
            folder, output = _make_two_folders(name)
            code = output / "code"
            script = [sys.executable, "-I", nvcc_script.__file__, "--alone", find_unmarked_end(unit.symbol)]
            command = self.make_command(unit.target, unit.flags, "-w", str(unit.path))
            done = run_compiler([*script, str(code), *command], folder)
            if done.returncode == 0 and code.is_file():
                yield Shortcut(code.read_bytes(), one_kernel=True)
            else:
                yield Shortcut(one_kernel=True, problem=find_first_error(done.stderr))

    def _compile(self, form: str, unit: Path, flags: Sequence[str], target: str) -> bytes | None:
        with TemporaryFolder("trial") as name:
            folder, output = _make_two_folders(name)
            code = output / "code"
            words = self.make_command(target, flags, "-w", form, "-o", str(code), str(unit))
            done = run_compiler(words, folder).returncode == 0
            if done and form == "-cubin" and SEPARATE in flags:
                part = code.rename(output / "part.cubin")
                link = [self.path, "-dlink", form, f"-arch={target}", "-o", str(code), str(part)]
                done = run_compiler(link, folder).returncode == 0
            return code.read_bytes() if done and code.is_file() else None


def _make_two_folders(place: Path) -> tuple[Path, Path]:
    """Make a folder to run in, which stays empty, and one for outputs."""
    folders = place / "empty", place / "out"
    for folder in folders:
        folder.mkdir()
    return folders


def find_nvcc(compiler: str, *, trusted: bool = False) -> NvccTool:
    """Find the nvcc of a build; if it is missing, another nvcc, unless the user named it (``trusted``).

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
    """Whether a program has nvcc's name."""
    return bool(_NVCC.fullmatch(Path(compiler).name))


@cache
def _read_version(path: str) -> str:
    try:
        told = run_tool([path, "--version"])
    except DeviceError:
        return ""
    return next((line for line in told.stdout.splitlines() if "release" in line), "").strip()
