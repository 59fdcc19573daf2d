"""CUDA's compilers: nvcc, and clang where the compile command is clang's."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.code.cubin import kernel_code
from kerncap_stages.compilers.clang_cuda import find_clang
from kerncap_stages.compilers.flags import compile_flags, unsafe_flags
from kerncap_stages.compilers.includes import environment_folders
from kerncap_stages.compilers.installed import is_clang
from kerncap_stages.compilers.nvcc import find_nvcc, is_nvcc
from kerncap_stages.compilers.nvcc_flags import nvcc_flags, unsafe_nvcc_flags
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

    def target(self, capture: Capture) -> str:
        """What the cubin itself is for: ``sm_90a`` is more than the device's ``sm_90``."""
        return capture.kernel.code_object.isa

    def find(self, compiler: str, *, trusted: bool = False) -> Tool:
        """The compiler of a build; of nvcc, where that is not on this machine, the one that is."""
        if is_clang(compiler):
            return find_clang(compiler)
        if not trusted and not is_nvcc(compiler):
            raise DeviceError(
                f"the compile command runs {compiler!r}, which is not called like nvcc or clang",
                hint="pass --compiler PATH, e.g. nvcc",
            )
        return find_nvcc(compiler, trusted=trusted)

    def flags(self, command: CompileCommand, defines: Sequence[str] = ()) -> tuple[str, ...]:
        """What shapes device code."""
        return (compile_flags if is_clang(command.compiler) else nvcc_flags)(command, defines)

    def unsafe_flags(self, command: CompileCommand, defines: Sequence[str] = ()) -> tuple[str, ...]:
        """What loads code, or is read by the shell that nvcc runs; clang runs none."""
        return unsafe_flags(command) if is_clang(command.compiler) else unsafe_nvcc_flags(command, defines)

    def own_folders(self, commands: Sequence[CompileCommand]) -> list[Path]:
        """The toolkit's, with those of CUB and thrust."""
        found: dict[Path, None] = {}
        for compiler in dict.fromkeys(command.compiler for command in commands):
            try:
                bin_folder = Path(os.path.realpath(self.find(compiler).path)).parent
            except DeviceError:
                continue
            for include in (bin_folder.parent / "include", *bin_folder.parent.glob("targets/*/include")):
                found.update((folder, None) for folder in (include / "cccl", include) if folder.is_dir())
        return [*found, *environment_folders()]

    def described_flags(self, compiler: str, flags: tuple[str, ...]) -> tuple[str, ...]:  # noqa: ARG002
        """Neither adds anything that another one would not."""
        return flags

    def find_assembly(
        self, capture: Capture, code: CapturedCode, roots: Sequence[Path], consulted: Consulted
    ) -> PtxSearch | None:
        """PTX, which compilers leave beside the machine code: that cannot be made of text again."""
        return find_ptx(capture, code, roots, consulted)

    def kernel_code(self, code_object: bytes, symbol: str) -> bytes | None:
        """The instructions of one kernel of a cubin."""
        return kernel_code(code_object, symbol)

    def made_by(self, code_object: bytes) -> None:
        """Cubins do not say."""

    def other_levels(self, flags: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
        """Levels of nvcc are of host code; ``-G`` alone changes a kernel."""
        if "-G" in flags:
            return {"no -G": tuple(flag for flag in flags if flag != "-G")}
        return {"-G": (*flags, "-G")}
