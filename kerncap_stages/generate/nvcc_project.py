"""Projects of CUDA kernels, which nvcc or clang compiles; ptxas assembles kernels without source.

clang only makes PTX: the Makefile runs ptxas if there is one, else the driver assembles the PTX. nvcc has no
overlay, so its sources are in ``deps/`` with the layout of their tree, and the flags name the include folders
of this copy: docs/decisions/0023-sources-of-cuda-projects.md.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.code.kernel_facts import find_unmarked_end
from kerncap_stages.compilers import nvcc_script, nvrtc_script
from kerncap_stages.compilers.flags import keep_shaping_flags
from kerncap_stages.compilers.installed import is_clang
from kerncap_stages.compilers.nvcc import is_nvcc
from kerncap_stages.compilers.nvcc_flags import SEPARATE, keep_shaping_nvcc_flags
from kerncap_stages.compilers.nvrtc import SCRIPT, is_nvrtc, keep_shaping_nvrtc_flags
from kerncap_stages.errors import Refused, UsageError
from kerncap_stages.generate.kind import Build, judge_flags
from kerncap_stages.generate.listing import LISTING, list_machine_code
from kerncap_stages.generate.mirror import Mirror, make_nvcc_response_text
from kerncap_stages.generate.overlay import make_overlay_files, place_files
from kerncap_stages.generate.quoting import choose_compiler
from kerncap_stages.manifests.kernel import Language
from kerncap_stages.manifests.os_strings import to_os_string

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.source import CompileCommand, PrecompiledHeaders, Source
    from kerncap_stages.store import Store

ONE_KERNEL_SCRIPT = "compile_kernel.py"
_PLAIN = re.compile(r"\w+", re.ASCII)  # no character that make or a shell interprets


class NvccProject:
    """See ``kind.ProjectKind``."""

    template = "cuda"
    editable = "kernel_variant.cu"
    assembly = "kernel_variant.ptx"
    code = "capture/kernel.cubin"
    built = "optimized.cubin"

    def build(
        self,
        capture: Capture,
        originals: Mapping[str, str],
        command: CompileCommand | None,
        linked: Sequence[CompileCommand] = (),  # noqa: ARG002 - other units are found for HIP alone
        *,
        one_kernel: bool = False,
        precompiled: PrecompiledHeaders | None = None,  # noqa: ARG002
    ) -> Build:
        """Place the sources in a copy of their tree."""
        paths = list(originals)
        if command is None:
            return Build(place_files(paths, self.editable) if paths else {})
        compiler = to_os_string(command.arguments[0])
        if is_clang(compiler):
            return self._make_clang_build(paths, command)
        flags = judge_flags(
            command, keep_shaping_nvrtc_flags if is_nvrtc(compiler) else keep_shaping_nvcc_flags
        )
        try:
            mirror = Mirror.place(paths, flags)
        except Refused as refusal:
            return Build(place_files(paths, self.editable), problem=str(refusal))
        placed = {**mirror.placed, paths[0]: self.editable}
        files = {"compile_flags.rsp": make_nvcc_response_text([*mirror.relocate(flags), "-I."]).encode()}
        if is_nvrtc(compiler):
            files[SCRIPT] = Path(nvrtc_script.__file__).read_bytes()
        kernel = None
        if one_kernel and not is_nvrtc(compiler) and SEPARATE not in flags:
            kernel = _find_name(capture.kernel.mangled_name)
        if kernel is not None:
            files[ONE_KERNEL_SCRIPT] = Path(nvcc_script.__file__).read_bytes()
        values = {
            "is_clang": False,
            "is_nvrtc": is_nvrtc(compiler),
            "script": SCRIPT,
            "one_kernel": kernel,
            "one_kernel_script": ONE_KERNEL_SCRIPT,
            "separate": SEPARATE in flags,
            "compiler": choose_compiler(compiler, is_nvrtc if is_nvrtc(compiler) else is_nvcc, "nvcc"),
            "inputs": sorted([*placed.values(), *files]),
            "link": mirror.placed[paths[0]],
            "link_to": mirror.make_way_up(paths[0]) + self.editable,
            "unit": mirror.placed[to_os_string(command.translation_unit)],
        }
        return Build(placed, files, values)

    def _make_clang_build(self, paths: Sequence[str], command: CompileCommand) -> Build:
        placed = place_files(paths, self.editable)
        flags = judge_flags(command, keep_shaping_flags)
        files = make_overlay_files(placed, [(to_os_string(command.translation_unit), flags)])
        values = {
            "is_clang": True,
            "first_built": "optimized.ptx",
            "one_kernel": None,
            "built": "$(BUILT)",
            "built_text": "`optimized.cubin` (`optimized.ptx` where there is no ptxas)",
            "compiler": choose_compiler(to_os_string(command.arguments[0]), is_clang, "clang++"),
            "inputs": sorted([*placed.values(), *files]),
        }
        return Build(placed, files, values)

    def read_assembly_text(self, store: Store, capture: Capture, source: Source | None) -> str:
        """Return the PTX that Triton made or that kc-locate found: no tool assembles machine code."""
        triton = capture.kernel.triton
        if triton is not None and triton.ptx is not None:
            return store.get(triton.ptx.digest).decode(errors="surrogateescape")
        if source is None or source.language is not Language.ASSEMBLY or not source.files:
            raise UsageError(
                f"no PTX of {capture.kernel.demangled_name} is known",
                hint="run kc-locate with --source-dir: a folder of .ptx files, or the program or library "
                "that contains the kernel",
            )
        return store.get(source.files[0].payload.digest).decode(errors="surrogateescape")

    def make_listing(self, store: Store, capture: Capture) -> dict[str, bytes]:
        """List the machine code by nvdisasm."""
        kernel = capture.kernel
        code = store.get(kernel.code_digest)
        text = list_machine_code(code, kernel.mangled_name)
        return {} if text is None else {LISTING: text}


def _find_name(symbol: str) -> str | None:
    """Return the part of a kernel's symbol by which nvlink selects it; None if a shell might interpret it."""
    name = find_unmarked_end(symbol)
    return name if _PLAIN.fullmatch(name) else None
