"""Projects that clang compiles: HIP kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerncap_stages.errors import ArtifactError
from kerncap_stages.manifests.os_strings import os_string
from kerncap_stages.project.kinds import Build, judged_flags
from kerncap_stages.project.overlay import EDITABLE, overlay_files, place_files
from kerncap_stages.project.quoting import named_compiler
from kerncap_stages.source.compilers import is_compiler_name
from kerncap_stages.source.flags import compile_flags

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.source import CompileCommand, Source
    from kerncap_stages.store import Store


class HipProject:
    """See ``kinds.ProjectKind``."""

    template = "hip"
    editable = EDITABLE
    assembly = "kernel_variant.s"
    code = "capture/kernel.hsaco"
    built = "optimized.hsaco"

    def build(
        self,
        capture: Capture,  # noqa: ARG002
        originals: Sequence[str],
        command: CompileCommand | None,
    ) -> Build:
        """Every file stays at its path for the compiler: an overlay leads to the project's."""
        placed = place_files(originals) if originals else {}
        if command is None:
            return Build(placed)
        flags = judged_flags(command, compile_flags)
        files = overlay_files(placed, os_string(command.translation_unit), flags)
        values = {
            "compiler": named_compiler(os_string(command.arguments[0]), is_compiler_name, "hipcc"),
            "inputs": sorted([*placed.values(), *files]),
        }
        return Build(placed, files, values)

    def listing(self, store: Store, capture: Capture) -> dict[str, bytes]:  # noqa: ARG002
        """None: what LLVM disassembles it assembles, too."""
        return {}

    def assembly_text(self, store: Store, capture: Capture, source: Source | None) -> str:  # noqa: ARG002
        """The instructions of the captured code object."""
        from kerncap_stages.project.assembly import disassemble

        kernel = capture.kernel
        digest = kernel.code_object.payload.digest
        code = store.get(digest)
        try:
            return disassemble(code, kernel.mangled_name)
        except ArtifactError as error:
            raise ArtifactError(f"file {digest.short}: {error}", hint=error.hint) from error
