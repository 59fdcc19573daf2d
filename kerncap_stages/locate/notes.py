"""Notes for the user about a source that was found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerncap_stages.locate.linking import describe_link, try_find_link
from kerncap_stages.text.formats import list_first

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from kerncap_stages.compilers.compile_commands import CompileCommand
    from kerncap_stages.locate.definitions import Definition
    from kerncap_stages.locate.wanted import Wanted
    from kerncap_stages.manifests.source import Unedited

_MAX_PLACES = 5


def list_places(definitions: Sequence[Definition]) -> str:
    """List where definitions are: the first few, and how many more there are."""
    places = [f"{found.path}:{found.line}" for found in definitions]
    return list_first(places, _MAX_PLACES)


def explain_difference(unedited: Unedited, newer: Sequence[Path]) -> str | None:
    """Say what to do if a source does not give the captured instructions; None if it gives them.

    newer: files that were changed after the program was built.
    """
    if unedited.same_instructions:
        return None
    if unedited.same_instructions is None:
        if not newer:
            return None
        return (
            f"{min(newer)} was changed after the program was built, and kc-locate could not check whether it "
            "still gives the captured instructions"
        )
    if newer:
        return (
            f"{min(newer)} was changed after the program was built, and no longer gives the captured "
            "instructions: build the program again and capture it"
        )
    return (
        "the compile command does not give the captured instructions: build the program with it and capture "
        "the program again, or give the command with which the program was built"
    )


def describe_build(command: CompileCommand, wanted: Wanted) -> Iterator[str]:
    """Yield notes on how a compile command was not followed exactly."""
    yield from describe_link(command, wanted)
    if command.own_compiler and not command.compiler_is_given:
        yield (
            f"{command.own_compiler} is in the folder of the build and was not run; {command.compiler} from "
            "PATH is used, or the compiler that --compiler names"
        )
    others = try_find_link(command, wanted).units
    flags = (wanted.toolchain.find_unsafe_flags(each, wanted.defines) for each in (command, *others))
    unsafe = dict.fromkeys(flag for each in flags for flag in each)
    if unsafe:
        yield "left out because the compiler could run code or write files: " + " ".join(unsafe)
