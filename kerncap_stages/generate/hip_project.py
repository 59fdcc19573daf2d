"""Projects of HIP kernels, which clang compiles."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

from kerncap_stages._native import demangle
from kerncap_stages.code.kernel_facts import strip_unit
from kerncap_stages.compilers.flags import keep_shaping_flags
from kerncap_stages.compilers.hip import (
    RELOCATABLE_LINK,
    RELOCATABLE_UNIT,
    HipToolchain,
    find_optimisation_flag,
)
from kerncap_stages.compilers.installed import is_compiler_name
from kerncap_stages.errors import ArtifactError
from kerncap_stages.generate.assembly import disassemble
from kerncap_stages.generate.compile_script import SCRIPT, make_compile_script
from kerncap_stages.generate.kind import Build, judge_flags
from kerncap_stages.generate.overlay import EDITABLE, format_number, make_overlay_files, place_files
from kerncap_stages.generate.quoting import choose_compiler, read_target_name
from kerncap_stages.manifests.os_strings import to_os_string

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.source import CompileCommand, PrecompiledHeaders, Source
    from kerncap_stages.store import Store


class HipProject:
    """See ``kind.ProjectKind``."""

    template = "hip"
    editable = EDITABLE
    assembly = "kernel_variant.s"
    code = "capture/kernel.hsaco"
    built = "optimized.hsaco"

    def build(
        self,
        capture: Capture,
        originals: Mapping[str, str],
        command: CompileCommand | None,
        linked: Sequence[CompileCommand] = (),
        *,
        one_kernel: bool = False,
        precompiled: PrecompiledHeaders | None = None,
    ) -> Build:
        """Place the sources. An overlay shows them to the compiler at their original paths."""
        placed = place_files(originals) if originals else {}
        if command is None:
            return Build(placed)
        units = [
            (to_os_string(each.translation_unit), judge_flags(each, keep_shaping_flags))
            for each in (command, *linked)
        ]
        files = make_overlay_files(placed, units)
        compiler = to_os_string(command.arguments[0])
        script = None
        if not linked:
            target = kernel = ""
            if precompiled is not None:
                target = read_target_name(capture.kernel.code_object.isa)
                kernel = demangle(strip_unit(capture.kernel.mangled_name))
            digests = {name: originals[path] for path, name in placed.items() if name != EDITABLE}
            digests |= {name: sha256(text).hexdigest() for name, text in files.items()}
            level = " ".join(find_optimisation_flag(HipToolchain().complete_flags(compiler, units[0][1])))
            symbol = strip_unit(capture.kernel.mangled_name) if one_kernel else None
            script = make_compile_script(symbol, level, precompiled, placed, digests, target, kernel)
        if script is not None:
            files |= script.files
        values = {
            "units": [format_number(i) for i in range(len(units))],
            "relocatable_unit": " ".join(RELOCATABLE_UNIT),
            "link": " ".join((*RELOCATABLE_LINK, *find_optimisation_flag(units[0][1]))),
            "compiler": choose_compiler(compiler, is_compiler_name, "hipcc"),
            "script": None if script is None else SCRIPT,
            "one_kernel": script is not None and script.one_kernel,
            "kept": "" if script is None else script.kept,
            "inputs": sorted([*placed.values(), *files]),
        }
        return Build(placed, files, values)

    def make_listing(self, store: Store, capture: Capture) -> dict[str, bytes]:  # noqa: ARG002
        """Make no listing: the assembly can be edited."""
        return {}

    def read_assembly_text(self, store: Store, capture: Capture, source: Source | None) -> str:  # noqa: ARG002
        """Disassemble the captured code object."""
        kernel = capture.kernel
        digest = kernel.code_digest
        code = store.get(digest)
        try:
            return disassemble(code, kernel.mangled_name)
        except ArtifactError as error:
            raise ArtifactError(f"file {digest.short}: {error}", hint=error.hint) from error
