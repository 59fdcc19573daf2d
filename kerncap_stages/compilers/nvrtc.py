"""NVRTC as a compiler, for sources that nvcc refuses: a program wrote them for NVRTC, which includes nothing.

The library runs in a process of its own, in an empty folder.
"""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.code.kernel_facts import is_same_but_for_unit
from kerncap_stages.code.ptx import find_entry_lines
from kerncap_stages.compilers import nvrtc_script
from kerncap_stages.compilers.cuda_tools import find_cuda_tool
from kerncap_stages.compilers.dependencies import find_first_error, run_compiler
from kerncap_stages.compilers.line_tables import read_line_tables
from kerncap_stages.compilers.nvcc import find_nvcc
from kerncap_stages.compilers.nvcc_flags import (
    find_dropped_nvcc_flags,
    find_unsafe_nvcc_flags,
    keep_shaping_nvcc_flags,
)
from kerncap_stages.errors import DeviceError
from kerncap_stages.machine.python_packages import find_package_folders
from kerncap_stages.machine.temporary import TemporaryFolder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kerncap_stages.compilers.compile_commands import CompileCommand
    from kerncap_stages.compilers.dependencies import Headers
    from kerncap_stages.compilers.kernel_unit import KernelUnit
    from kerncap_stages.compilers.shortcuts import Shortcut

SCRIPT = "compile_nvrtc.py"
# Words that NVRTC has and nvcc does not. No shell reads them.
_NVRTC_ALONE = re.compile(
    r"-default-device|--device-as-default-execution-space|--?no-source-include|--?minimal"
    r"|--?device-(int|float)128|--?(builtin-move-forward|builtin-initializer-list)=(true|false)"
)
_NAME = re.compile(r"libnvrtc\.so(\.\d+)*")
_IN_TOOLKITS = ("lib64", "lib", "targets/x86_64-linux/lib")
_IN_PACKAGES = ("nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib")


@dataclass(frozen=True)
class NvrtcTool:
    """A library of NVRTC; see ``toolchain.Tool``."""

    path: str

    def list_headers(self, flags: Sequence[str], unit: Path, directory: Path, target: str) -> Headers:
        """List the headers by nvcc, which need not be able to compile the source."""
        return find_nvcc("nvcc").list_headers(
            [flag for flag in flags if not _NVRTC_ALONE.fullmatch(flag)], unit, directory, target
        )

    def list_system_folders(self, target: str) -> tuple[Path, ...]:  # noqa: ARG002
        """List none: NVRTC has no folders."""
        return ()

    def read_version(self) -> str:
        """Return the library's name, which has its version."""
        return Path(self.path).resolve().name

    def yields(self, unit: Path, flags: Sequence[str], directory: Path, target: str, symbol: str) -> bool:  # noqa: ARG002
        """Compile to PTX, and search the kernel's entry."""
        try:
            ptx = self._compile("-ptx", unit, flags, target)
        except DeviceError:
            return False
        return any(is_same_but_for_unit(entry, symbol) for entry in find_entry_lines(ptx))

    def find_definition(
        self,
        unit: Path,
        flags: Sequence[str],
        directory: Path,  # noqa: ARG002
        target: str,
        symbol: str,
    ) -> tuple[Path, int] | None:
        """Compile for the debugger, and read where the kernel was declared."""
        return read_line_tables(self._compile("-cubin", unit, (*flags, "-G"), target), symbol).definition

    def compile_device_code(
        self,
        unit: Path,
        flags: Sequence[str],
        directory: Path,  # noqa: ARG002 - all flags are absolute
        target: str,
    ) -> bytes:
        """Compile with the program's flags."""
        return self._compile("-cubin", unit, flags, target)

    def try_shortcuts(self, unit: KernelUnit, edited: Path | None, *, one_kernel: bool) -> Iterator[Shortcut]:  # noqa: ARG002
        """Yield nothing: NVRTC compiles in one step."""
        return iter(())

    def _compile(self, form: str, unit: Path, flags: Sequence[str], target: str) -> bytes:
        with TemporaryFolder("nvrtc") as name:
            output, empty = Path(name) / "code", Path(name) / "empty"
            empty.mkdir()
            words = [sys.executable, "-I", nvrtc_script.__file__, self.path, form, f"-arch={target}", *flags]
            done = run_compiler([*words, "-w", "-o", str(output), str(unit)], empty)
            if done.returncode != 0 or not output.is_file():
                raise DeviceError(f"{unit} does not compile: {find_first_error(done.stderr)}")
            return output.read_bytes()


def keep_shaping_nvrtc_flags(command: CompileCommand, defines: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the flags that affect the code, each in one word with its value."""
    kept: list[str] = []
    for word in keep_shaping_nvcc_flags(command, defines):
        if word.startswith("-") or kept[-1] in ("-isystem", "-include"):
            kept.append(word)
        else:
            kept[-1] += f"={word}"
    return (*kept, *(word for word in command.arguments[1:] if _NVRTC_ALONE.fullmatch(word)))


def find_unsafe_nvrtc_flags(command: CompileCommand, defines: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the flags that may do more than affect code."""
    unsafe = find_unsafe_nvcc_flags(command, defines)
    return tuple(word for word in unsafe if not _NVRTC_ALONE.fullmatch(word))


def find_dropped_nvrtc_flags(command: CompileCommand) -> tuple[str, ...]:
    """Return the flags and inputs that are left out because a rebuild of one kernel sets its own."""
    dropped = find_dropped_nvcc_flags(command)
    return tuple(word for word in dropped if not _NVRTC_ALONE.fullmatch(word))


def is_nvrtc(compiler: str) -> bool:
    """Whether a compiler is a library of NVRTC, by its name."""
    return bool(_NAME.fullmatch(Path(compiler).name))


def find_nvrtc(library: str) -> NvrtcTool:
    """Find the library that a program used; if it is not trusted, one of its name of a toolkit or a package.

    It is run, and a capture may come from anybody: so the program's own must be root's.
    Raises DeviceError if there is none.
    """
    path = Path(library)
    if path.is_absolute() and path.is_file() and path.stat().st_uid == 0:
        return NvrtcTool(library)
    nvcc = find_cuda_tool("nvcc")
    top = Path(nvcc).resolve().parent.parent if nvcc else None
    folders = [top / part for part in _IN_TOOLKITS] if top else []
    folders += [packages / place for packages in find_package_folders(os.environ) for place in _IN_PACKAGES]
    found = next((each for each in (folder / path.name for folder in folders) if each.is_file()), None)
    if found is None:
        raise DeviceError(
            f"there is no {path.name} of a toolkit or a Python package",
            hint="put the nvcc of its toolkit on PATH, or `pip install nvidia-cuda-nvrtc`",
        )
    return NvrtcTool(str(found))
