"""The page of a located source."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from kerncap_stages.manifests.os_strings import to_os_string
from kerncap_stages.pages.parts import list_facts, make_heading, make_table
from kerncap_stages.pages.shared import describe_unedited
from kerncap_stages.text import formats

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from kerncap_stages.manifests.source import Source


def render(source: Source) -> Iterator[RenderableType]:
    """Show where the kernel is defined, how it is compiled, and its files."""
    found = source.definition
    yield make_heading("Source")
    yield list_facts(
        [
            ("kernel", source.kernel_name),
            ("language", source.language.value),
            ("outcome", source.outcome.value.replace("_", " ")),
            ("why", source.explanation),
            ("defined in", None if found is None else f"{to_os_string(found.path)}:{found.line}"),
            ("unedited", describe_unedited(source.unedited)),
            ("as", None if found is None else found.qualified_name),
        ]
    )
    if source.candidates:
        yield make_heading("Candidates")
        yield make_table(
            ["definition", "file"],
            (
                (candidate.qualified_name, f"{to_os_string(candidate.path)}:{candidate.line}")
                for candidate in source.candidates
            ),
        )
    command = source.compile_command
    if command is not None:
        yield make_heading("Compile command")
        yield list_facts(
            [
                ("unit", to_os_string(command.translation_unit)),
                ("folder", to_os_string(command.directory)),
                ("command", shlex.join(to_os_string(argument) for argument in command.arguments)),
                ("from", None if command.database is None else to_os_string(command.database)),
            ]
        )
    if source.files:
        by = "the compiler's own list" if source.headers_by_compiler else "found by reading includes"
        yield make_heading("Files", by)
        yield make_table(
            ["=digest", ">size", "file"],
            (
                (file.payload.digest.short, formats.format_size(file.size_bytes), to_os_string(file.path))
                for file in source.files
            ),
        )
