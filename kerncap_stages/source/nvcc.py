"""CUDA's compiler, nvcc."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.cubin import kernel_code
from kerncap_stages.errors import DeviceError
from kerncap_stages.kernel_facts import same_but_for_unit
from kerncap_stages.python_packages import package_folders
from kerncap_stages.source.dependencies import (
    first_error,
    outside_toolchain,
    parse_make_rule,
    parse_search_list,
    run_compiler,
)
from kerncap_stages.source.nvcc_flags import shell_reads

if TYPE_CHECKING:
    from collections.abc import Sequence


_NVCC = re.compile(r"nvcc(-\d+(\.\d+)*)?")
_ENTRY = re.compile(r"^\s*(?:\.visible\s+|\.weak\s+)*\.entry\s+([\w$]+)", re.MULTILINE)
_TIMEOUT_S = 60
# nvidia-cuda-nvcc and its companions; Triton brings ptxas and cuobjdump.
_IN_PACKAGES = ("nvidia/cu13/bin", "triton/backends/nvidia/bin")


@dataclass(frozen=True)
class NvccTool:
    """An nvcc; see ``toolchain.Tool``."""

    path: str

    def command(self, target: str, flags: Sequence[str], *rest: str) -> list[str]:
        """Words that compile CUDA for one GPU target.

        Raises DeviceError for a word that the shell behind nvcc would expand: nvcc runs one.
        """
        words = [self.path, "-x", "cu", f"-arch={target}", *flags, *rest]
        for word in words:
            if shell_reads(word):
                raise DeviceError(
                    f"nvcc would let a shell expand {word!r}", hint="rename the file, or leave out the flag"
                )
        return words

    def local_headers(self, flags: Sequence[str], unit: Path, directory: Path, target: str) -> list[Path]:
        """What ``nvcc -M`` lists: the includes of the device's pass and of the host's."""
        with tempfile.TemporaryDirectory(prefix="kerncap-headers-") as name:
            rule = Path(name) / "rule"
            result = run_compiler(self.command(target, flags, "-M", "-o", str(rule), str(unit)), directory)
            if result.returncode != 0 or not rule.exists():
                raise DeviceError(
                    f"{unit} does not preprocess under its compile command: {first_error(result.stderr)}",
                    hint="check that the build folder is complete (generated headers?) and -D is right",
                )
            prerequisites = parse_make_rule(rule.read_text(encoding="utf-8", errors="surrogateescape"))
        return outside_toolchain(prerequisites, unit, directory, self._toolchain_folders(directory, target))

    def _toolchain_folders(self, directory: Path, target: str) -> tuple[Path, ...]:
        words = self.command(target, (), "-E", "-Xcompiler=-v", os.devnull, "-o", os.devnull)
        return parse_search_list(run_compiler(words, directory).stderr)

    def version(self) -> str:
        """The line of its release."""
        return _version(self.path)

    def yields(self, unit: Path, flags: Sequence[str], directory: Path, target: str, symbol: str) -> bool:
        """Compile to PTX and look for the kernel's entry."""
        ptx = self._made("-ptx", unit, flags, directory, target)
        entries = entry_names(ptx.decode(errors="replace")) if ptx is not None else []
        return any(same_but_for_unit(entry, symbol) for entry in entries)

    def defined_at(self, unit: Path, flags: Sequence[str], directory: Path, target: str, symbol: str) -> None:
        """PTX has the lines of statements only."""

    def device_code(
        self, unit: Path, flags: Sequence[str], directory: Path, target: str, symbol: str
    ) -> bytes | None:
        """Compile as the build does."""
        made = self._made("-cubin", unit, flags, directory, target)
        return None if made is None else kernel_code(made, symbol)

    def _made(
        self, form: str, unit: Path, flags: Sequence[str], directory: Path, target: str
    ) -> bytes | None:
        with tempfile.TemporaryDirectory(prefix="kerncap-trial-") as name:
            output = Path(name) / "code"
            words = self.command(target, flags, "-w", form, "-o", str(output), str(unit))
            result = run_compiler(words, directory)
            return output.read_bytes() if result.returncode == 0 and output.is_file() else None


def find_nvcc(compiler: str, *, trusted: bool = False) -> NvccTool:
    """The nvcc of a build; where that is not on this machine, the one that is, unless it is the user's word.

    Raises DeviceError if there is none.
    """
    found = shutil.which(compiler) or (None if trusted else find_cuda_tool("nvcc"))
    if found is None:
        raise DeviceError(
            f"there is no compiler {compiler}",
            hint="put nvcc on PATH, `pip install nvidia-cuda-nvcc`, or pass --compiler PATH",
        )
    return NvccTool(found)


def entry_names(ptx: str) -> list[str]:
    """The symbols of the kernels of a PTX file."""
    return _ENTRY.findall(ptx)


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
        told = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return next((line for line in told.stdout.splitlines() if "release" in line), "").strip()
