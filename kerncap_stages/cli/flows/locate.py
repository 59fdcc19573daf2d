"""What kc-locate does: locate the source of each capture, or reuse an earlier result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerncap_stages.cli.console import emit, say
from kerncap_stages.cli.inputs import read_artifact_texts
from kerncap_stages.locate.known_source import find_known_source, find_removed_source, summarise_source
from kerncap_stages.locate.options import Options
from kerncap_stages.store import Store
from kerncap_stages.text.terminal import make_printable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kerncap_stages.digest import Digest
    from kerncap_stages.manifests import View
    from kerncap_stages.manifests.source import Source


def locate_sources(
    store_folder: Path | None,
    artifacts: Sequence[str] | None,
    *,
    source_dirs: Sequence[Path],
    compile_commands: Path | None,
    defines: Sequence[str],
    compiler: str | None,
    fresh: bool,
    as_json: bool,
) -> None:
    """Locate the source of each capture and print the digests of the source artifacts."""
    options = Options(tuple(source_dirs), compile_commands, tuple(defines), compiler)
    store = Store.open(store_folder)
    for text in read_artifact_texts(artifacts):
        capture = store.resolve(text)
        digest, made = locate_source(store, capture, options, fresh=fresh)
        say(summarise_source(made))
        removed = None if made.definition is not None else find_removed_source(store, capture)
        if removed is not None:
            earlier, path = removed
            say(f"  it was in {make_printable(path)}, which was removed; {earlier.short} has a copy")
        emit(digest, store.get(digest) if as_json else None)


def locate_source(
    store: Store, capture: Digest, options: Options, *, fresh: bool
) -> tuple[Digest, Source | View]:
    """Return the source artifact of a capture: the earlier one if nothing has changed, else a new one."""
    known = None if fresh else find_known_source(store, capture, options)
    return known or _search(store, capture, options)


def _search(store: Store, capture: Digest, options: Options) -> tuple[Digest, Source]:
    # The models and the search are not needed if the source is known.
    from kerncap_stages.locate.locating import run_locate

    return run_locate(store, capture, options, fresh=True)
