"""Classifies a search that found no source, and says what to do next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerncap_stages.compilers.toolchains import choose_toolchain
from kerncap_stages.locate.search import collect_hints, find_told_place
from kerncap_stages.manifests.source import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kerncap_stages.code.kernel_names import KernelName
    from kerncap_stages.compilers.consulted import Consulted
    from kerncap_stages.compilers.line_tables import LineTables
    from kerncap_stages.manifests.capture import Capture

_ASK = "with a compile_commands.json that contains its unit, kc-locate can ask the compiler"

_FROM_MEMORY = (
    "the program loaded its code from memory: if it compiled the code in an earlier run and kept it in a "
    "file, capture a run that compiles it"
)


def classify(
    capture: Capture, name: KernelName, tables: LineTables, roots: Sequence[Path], consulted: Consulted
) -> tuple[Outcome, str]:
    """Return the outcome of a search that found nothing, and an explanation for the user."""
    outcome, explanation = _classify(capture, name, tables, roots, consulted)
    from_memory = (capture.kernel.code_object.uri or "").startswith("memory:")
    if from_memory and outcome in (Outcome.NOT_FOUND, Outcome.NO_SOURCE_TRAIL):
        explanation = f"{explanation}; {_FROM_MEMORY}"
    return outcome, explanation


def _classify(
    capture: Capture, name: KernelName, tables: LineTables, roots: Sequence[Path], consulted: Consulted
) -> tuple[Outcome, str]:
    where = ", ".join(str(root) for root in roots) or "no folder"
    hint = collect_hints(roots, name.base, consulted)
    if tables.definition is not None or tables.paths:
        path = tables.definition[0] if tables.definition else tables.paths[0]
        there = find_told_place(path, roots, consulted)
        if there is None:
            return Outcome.WRONG_DIRECTORY, (
                f"the code object was compiled from {path}, which is not in {where}"
            )
        told = f"the code object was compiled from {there}, where no definition of {name.base} is recognised"
        return Outcome.NOT_FOUND, f"{told}: {hint}; {_ASK}" if hint else f"{told}; {_ASK}"
    if not roots:
        return Outcome.NOT_FOUND, "there is no folder to search: pass --source-dir"
    if hint is not None:
        return Outcome.NOT_FOUND, f"no definition of {name.base} is recognised in {where}: {hint}; {_ASK}"
    if capture.kernel.demangled_name == capture.kernel.mangled_name:
        if name.base.startswith("_Z"):
            return Outcome.NO_SOURCE_TRAIL, (
                f"the C++ name {name.base} cannot be made readable, so no source is found by it, and its "
                "code object has no line table; build the program with debug information (-g, or "
                "nvcc -lineinfo)"
            )
        return Outcome.NO_SOURCE_TRAIL, (
            f"{name.base} is not in {where}, is not a C++ name, and its code object has no line table: "
            "it may be from a library, hand-written or generated"
        )
    return Outcome.NOT_FOUND, (
        f"no definition of {name.base} in {where}, and the code object has no line table; "
        f"pass the right --source-dir, or build the program with {choose_toolchain(capture).line_flag}"
    )
