"""Reads the result of an earlier search without importing pydantic, and summarises a result for the user."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.compilers.consulted import is_current
from kerncap_stages.manifests import open_view
from kerncap_stages.manifests.os_strings import to_os_string
from kerncap_stages.project.artifacts import find_source_of
from kerncap_stages.store.remembered import find_remembered
from kerncap_stages.text import formats
from kerncap_stages.text.terminal import make_printable

if TYPE_CHECKING:
    from kerncap_stages.digest import Digest
    from kerncap_stages.locate.options import Options
    from kerncap_stages.manifests import View
    from kerncap_stages.manifests.source import Source
    from kerncap_stages.store import Store
    from kerncap_stages.store.remembered import Remembered


def find_known_source(store: Store, capture: Digest, options: Options) -> Remembered | None:
    """Return the result of an earlier search, if nothing that it depends on has changed."""
    return find_remembered(store, options.make_key(capture), is_current)


def find_removed_source(store: Store, capture: Digest) -> tuple[Digest, str] | None:
    """Find the source that an earlier search found for a capture, if its file has been removed since.

    Returns the artifact, which still holds the file, and the path.
    """
    earlier = find_source_of(store, capture)
    if earlier is None:
        return None
    with open_view(store, earlier) as made:
        path = to_os_string(made.definition.path)
    return None if Path(path).exists() else (earlier, path)


def summarise_source(manifest: Source | View) -> str:
    """Say where the source is, or why it was not found."""
    if manifest.definition is None:
        text = f"{manifest.outcome}: {manifest.explanation}"
    else:
        noun = "other Python file" if manifest.language == "triton" else "local header"
        headers = formats.count(sum(file.is_header for file in manifest.files), noun)
        text = f"{to_os_string(manifest.definition.path)}:{manifest.definition.line}, {headers}"
        command = manifest.compile_command
        if command is not None and command.database is not None:
            text += f", compiled with the command in {to_os_string(command.database)}"
        if manifest.explanation:
            text += f"\n  {manifest.explanation}"
        if manifest.unedited is not None:
            text += f"\n  same instructions: {formats.describe_same_instructions(manifest.unedited)}"
    return make_printable(text, keep_lines=True)
