"""What is told of a source that was found, besides where it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerncap_stages.locate.linking import about_link, link_if_possible

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from kerncap_stages.compilers.compile_commands import CompileCommand
    from kerncap_stages.locate.wanted import Wanted
    from kerncap_stages.manifests.source import Unedited


def about_difference(unedited: Unedited, newer: Sequence[Path]) -> str | None:
    """What to do where a source with a compile command does not give the captured instructions.

    newer: files that were changed after the program was built.
    """
    if unedited.same_instructions:
        return None
    if unedited.same_instructions is None:
        if not newer:
            return None
        return (
            f"{min(newer)} was changed after the program was built, and whether it still gives the captured "
            "instructions could not be seen"
        )
    if newer:
        return (
            f"{min(newer)} was changed after the program was built, and what it says now does not give the "
            "captured instructions: build the program again and capture it"
        )
    return (
        "the compile command does not give the captured instructions: build the program by it and capture it "
        "again, or give the command that the program was built by"
    )


def about_build(command: CompileCommand, wanted: Wanted) -> Iterator[str]:
    """What of a compile command is not followed."""
    yield from about_link(command, wanted)
    if command.own_compiler and not command.compiler_is_given:
        yield (
            f"{command.own_compiler} lies in the folder of the build and was not run: the {command.compiler} "
            "of PATH is taken, or what --compiler names"
        )
    others = link_if_possible(command, wanted).units
    flags = (wanted.toolchain.unsafe_flags(each, wanted.defines) for each in (command, *others))
    unsafe = dict.fromkeys(flag for each in flags for flag in each)
    if unsafe:
        yield "left out, as the compiler could run code or write files: " + " ".join(unsafe)
