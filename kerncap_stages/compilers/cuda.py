"""CUDA's compilers: nvcc; clang or NVRTC if the compile command names one of them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.code.cubin import find_kernel_code
from kerncap_stages.compilers.clang_cuda import find_clang
from kerncap_stages.compilers.flags import find_dropped_flags, find_unsafe_flags, keep_shaping_flags
from kerncap_stages.compilers.includes import list_environment_folders
from kerncap_stages.compilers.installed import is_clang
from kerncap_stages.compilers.nvcc import find_nvcc, is_nvcc
from kerncap_stages.compilers.nvcc_flags import (
    find_dropped_nvcc_flags,
    find_unsafe_nvcc_flags,
    keep_shaping_nvcc_flags,
)
from kerncap_stages.compilers.nvrtc import (
    find_dropped_nvrtc_flags,
    find_nvrtc,
    find_unsafe_nvrtc_flags,
    is_nvrtc,
    keep_shaping_nvrtc_flags,
)
from kerncap_stages.compilers.ptx import find_ptx
from kerncap_stages.errors import DeviceError
from kerncap_stages.manifests.kernel import Language

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kerncap_stages.compilers.captured_code import CapturedCode
    from kerncap_stages.compilers.compile_commands import CompileCommand
    from kerncap_stages.compilers.consulted import Consulted
    from kerncap_stages.compilers.ptx import PtxSearch
    from kerncap_stages.compilers.toolchain import Tool
    from kerncap_stages.manifests.capture import Capture


class CudaToolchain:
    """See ``toolchain.Toolchain``."""

    language = Language.CUDA_CPP
    line_flag = "-lineinfo"
    assumed = "nvcc"

    def choose_target(self, capture: Capture) -> str:
        """Return the cubin's target, not the device's: ``sm_90a`` has more instructions than ``sm_90``."""
        return capture.kernel.code_object.isa

    def find_tool(self, compiler: str, *, trusted: bool = False) -> Tool:
        """Find the compiler of a build; if its nvcc is not on this machine, another nvcc."""
        if is_clang(compiler):
            return find_clang(compiler)
        if is_nvrtc(compiler):
            return find_nvrtc(compiler)
        if not trusted and not is_nvcc(compiler):
            raise DeviceError(
                f"the compile command runs {compiler!r}, which does not have the name of nvcc or clang",
                hint="pass --compiler PATH, e.g. nvcc",
            )
        return find_nvcc(compiler, trusted=trusted)

    def choose_flags(self, command: CompileCommand, defines: Sequence[str] = ()) -> tuple[str, ...]:
        """Keep the flags that affect device code."""
        if is_nvrtc(command.compiler):
            return keep_shaping_nvrtc_flags(command, defines)
        return (keep_shaping_flags if is_clang(command.compiler) else keep_shaping_nvcc_flags)(
            command, defines
        )

    def find_unsafe_flags(self, command: CompileCommand, defines: Sequence[str] = ()) -> tuple[str, ...]:
        """Find flags that load code, or that nvcc's shell would interpret; clang runs no shell."""
        if is_nvrtc(command.compiler):
            return find_unsafe_nvrtc_flags(command, defines)
        return (
            find_unsafe_flags(command)
            if is_clang(command.compiler)
            else find_unsafe_nvcc_flags(command, defines)
        )

    def find_dropped_flags(self, command: CompileCommand) -> tuple[str, ...]:
        """Find outputs, phases, targets and inputs."""
        if is_nvrtc(command.compiler):
            return find_dropped_nvrtc_flags(command)
        return (find_dropped_flags if is_clang(command.compiler) else find_dropped_nvcc_flags)(command)

    def list_own_folders(self, commands: Sequence[CompileCommand]) -> list[Path]:
        """List the include folders of the toolkit, with those of CUB and thrust, and of the environment."""
        found: dict[Path, None] = {}
        for compiler in dict.fromkeys(command.compiler for command in commands):
            try:
                bin_folder = Path(os.path.realpath(self.find_tool(compiler).path)).parent
            except DeviceError:
                continue
            for include in (bin_folder.parent / "include", *bin_folder.parent.glob("targets/*/include")):
                found.update((folder, None) for folder in (include / "cccl", include) if folder.is_dir())
        return [*found, *list_environment_folders()]

    def complete_flags(self, compiler: str, flags: tuple[str, ...]) -> tuple[str, ...]:  # noqa: ARG002
        """Return the flags: nvcc and clang add none that another installation would not add."""
        return flags

    def find_assembly(
        self, capture: Capture, code: CapturedCode, roots: Sequence[Path], consulted: Consulted
    ) -> PtxSearch | None:
        """Search PTX, because no tool assembles machine code."""
        return find_ptx(capture, code, roots, consulted)

    def read_kernel_code(self, code_object: bytes, symbol: str) -> bytes | None:
        """Read the instructions of one kernel of a cubin."""
        return find_kernel_code(code_object, symbol)

    def read_compiler_name(self, code_object: bytes) -> None:
        """Return None: a cubin does not name its compiler."""

    def list_other_levels(self, flags: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
        """Return the flags with or without ``-G``: nvcc's levels only affect host code."""
        if "-G" in flags:
            return {"no -G": tuple(flag for flag in flags if flag != "-G")}
        return {"-G": (*flags, "-G")}
