"""Projects that clang compiles: HIP kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerncap_stages.compilers.flags import compile_flags
from kerncap_stages.compilers.hip import RELOCATABLE_LINK, RELOCATABLE_UNIT, optimisation
from kerncap_stages.compilers.installed import is_compiler_name
from kerncap_stages.errors import ArtifactError
from kerncap_stages.generate.assembly import disassemble
from kerncap_stages.generate.kind import Build, judged_flags
from kerncap_stages.generate.overlay import EDITABLE, number_of, overlay_files, place_files
from kerncap_stages.generate.quoting import named_compiler
from kerncap_stages.manifests.os_strings import os_string

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
        linked: Sequence[CompileCommand] = (),
    ) -> Build:
        """Every file stays at its path for the compiler: an overlay leads to the project's."""
        placed = place_files(originals) if originals else {}
        if command is None:
            return Build(placed)
        units = [
            (os_string(each.translation_unit), judged_flags(each, compile_flags))
            for each in (command, *linked)
        ]
        files = overlay_files(placed, units)
        values = {
            "units": [number_of(i) for i in range(len(units))],
            "relocatable_unit": " ".join(RELOCATABLE_UNIT),
            "link": " ".join((*RELOCATABLE_LINK, *optimisation(units[0][1]))),
            "compiler": named_compiler(os_string(command.arguments[0]), is_compiler_name, "hipcc"),
            "inputs": sorted([*placed.values(), *files]),
        }
        return Build(placed, files, values)

    def listing(self, store: Store, capture: Capture) -> dict[str, bytes]:  # noqa: ARG002
        """None: what LLVM disassembles it assembles, too."""
        return {}

    def assembly_text(self, store: Store, capture: Capture, source: Source | None) -> str:  # noqa: ARG002
        """The instructions of the captured code object."""
        kernel = capture.kernel
        digest = kernel.code_digest
        code = store.get(digest)
        try:
            return disassemble(code, kernel.mangled_name)
        except ArtifactError as error:
            raise ArtifactError(f"file {digest.short}: {error}", hint=error.hint) from error
