"""The page of a reproducer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerncap_stages.pages.parts import list_facts, make_heading, make_table, note
from kerncap_stages.pages.shared import describe_unedited
from kerncap_stages.text import formats

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from kerncap_stages.manifests.reproducer import Reproducer


def render(reproducer: Reproducer) -> Iterator[RenderableType]:
    """Show the kernels and the project's files."""
    yield make_heading("Reproducer")
    yield list_facts(
        [
            ("language", reproducer.language.value),
            ("recompile", "yes" if reproducer.can_recompile else "no"),
            *(("missing", missing) for missing in reproducer.missing),
            *(("unedited", describe_unedited(kernel.unedited)) for kernel in reproducer.kernels),
        ]
    )
    yield make_table(
        ["kernel", "=capture", "=source"],
        (
            (
                kernel.name,
                kernel.capture.digest.short,
                "-" if kernel.source is None else kernel.source.digest.short,
            )
            for kernel in reproducer.kernels
        ),
    )
    yield make_heading("Files", "* marks files to edit")
    yield make_table(
        ["=digest", ">size", "", "file"],
        (
            (
                file.payload.digest.short,
                formats.format_size(file.size_bytes),
                "*" if file.editable else "",
                file.path,
            )
            for file in reproducer.files
        ),
    )
    yield note("`kc-generate` writes the project to a folder")
