"""The page of files that ``kc-store put`` stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerncap_stages.digest import MemoryRef
from kerncap_stages.pages.parts import list_facts, make_heading, make_table, note
from kerncap_stages.text import formats

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from kerncap_stages.manifests.files import Files

_MAX_LISTED = 50


def render(files: Files) -> Iterator[RenderableType]:
    """Show the files with their sizes."""
    size = formats.format_size(sum(file.size_bytes for file in files.files))
    number = formats.count(len(files.files), "file")
    yield make_heading("Folder" if files.is_folder else "File", f"{number}, {size}")
    yield list_facts([("name", files.name)])
    yield make_table(
        ["=digest", "kept as", ">size", "file"],
        (
            (
                file.content.digest.short,
                "memory" if isinstance(file.content, MemoryRef) else "file",
                formats.format_size(file.size_bytes),
                file.path,
            )
            for file in files.files[:_MAX_LISTED]
        ),
    )
    more = len(files.files) - _MAX_LISTED
    if more > 0:
        yield note(f"and {formats.count(more, 'more file')}: see `--json`")
    if files.links:
        yield make_heading("Links")
        yield make_table(["link", "to"], ((link.path, link.target) for link in files.links[:_MAX_LISTED]))
    yield note("`kc-store get` writes them to a folder")
