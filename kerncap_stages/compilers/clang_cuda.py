"""clang as the compiler of CUDA sources. It only makes PTX here: for machine code it would run ptxas."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kerncap_stages.code.ptx import find_entry_lines
from kerncap_stages.compilers.dependencies import run_compiler
from kerncap_stages.compilers.hip import HipTool
from kerncap_stages.compilers.installed import Compiler
from kerncap_stages.errors import DeviceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from kerncap_stages.compilers.kernel_unit import KernelUnit
    from kerncap_stages.compilers.shortcuts import Shortcut


@dataclass(frozen=True)
class CudaClang(Compiler):
    """A clang that compiles CUDA instead of HIP."""

    def make_command(self, target: str, flags: Sequence[str], *rest: str) -> list[str]:
        """Return the command that compiles CUDA for one GPU target, only for the device."""
        return [self.path, "-x", "cuda", f"--cuda-gpu-arch={target}", "--cuda-device-only", *flags, *rest]


class ClangCudaTool(HipTool):
    """See ``toolchain.Tool``."""

    def yields(self, unit: Path, flags: Sequence[str], directory: Path, target: str, symbol: str) -> bool:
        """Compile to PTX, and search the kernel's entry."""
        words = self.compiler.make_command(target, flags, "-w", "-S", "-o", "-", str(unit))
        result = run_compiler(words, directory)
        return result.returncode == 0 and symbol in find_entry_lines(result.stdout.encode())

    def compile_device_code(self, unit: Path, flags: Sequence[str], directory: Path, target: str) -> None:
        """Compile nothing: clang makes PTX, which has no instructions to compare."""

    def try_shortcuts(self, unit: KernelUnit, edited: Path | None, *, one_kernel: bool) -> Iterator[Shortcut]:  # noqa: ARG002
        """Yield nothing, as above."""
        return iter(())


def find_clang(compiler: str) -> ClangCudaTool:
    """Find the clang of a build. Raises DeviceError if there is none."""
    found = shutil.which(compiler)
    if found is None:
        raise DeviceError(f"there is no compiler {compiler}", hint="put it on PATH, or pass --compiler PATH")
    return ClangCudaTool(CudaClang(found))
