"""What is around a manifest: its head, its parents as a tree, and lists of artifacts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.tree import Tree

from kerncap_stages.errors import ArtifactError
from kerncap_stages.pages import formats
from kerncap_stages.pages.parts import facts, table, text
from kerncap_stages.subjects import Summary, summary_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from kerncap_stages.digest import Digest
    from kerncap_stages.manifests.base import Manifest
    from kerncap_stages.store import ArtifactEntry, Store

# Longer than any chain of stages; a tree that goes on is shown cut.
_DEEPEST_TREE = 16


def head(digest: Digest, manifest: Manifest, store: Store) -> Iterator[RenderableType]:
    """Show what every artifact has: digest, names, parents, sizes."""
    names = sorted(name for name, named in store.names().items() if named == digest)
    (usage,) = store.usages([digest])
    yield text(f"{manifest.kind} {digest}", "bold")
    yield facts(
        [
            ("names", ", ".join(names) or None),
            ("made by", manifest.made_by),
            *(("parent", _line(reference.digest, store)) for reference in manifest.parents),
            ("size", f"{formats.size(usage.logical_bytes)}, {formats.size(usage.stored_bytes)} on disk"),
            ("shared", f"{formats.size(usage.shared_bytes)} of that with other artifacts"),
        ]
    )


def tree(digest: Digest, store: Store) -> Tree:
    """Show an artifact above those that it was made from, and so on to the first."""
    return _branch(digest, store, _DEEPEST_TREE)


def listing(entries: Sequence[ArtifactEntry], store: Store, now: float) -> RenderableType:
    """List artifacts."""
    return table(
        ["=artifact", "kind", ">age", "names", "about"],
        (
            (
                entry.digest.short,
                entry.kind,
                formats.age(now - entry.created_at),
                ", ".join(entry.names),
                _read(entry.digest, store).subject,
            )
            for entry in entries
        ),
    )


def _read(digest: Digest, store: Store) -> Summary:
    try:
        return summary_of(store.get(digest))
    except ArtifactError as error:
        return Summary("?", f"cannot be read: {error}", ())


def _line(digest: Digest, store: Store) -> str:
    summary = _read(digest, store)
    return f"{digest.short}  {summary.kind}  {summary.subject}"


def _branch(digest: Digest, store: Store, depth: int) -> Tree:
    branch = Tree(text(_line(digest, store)))
    for parent in _read(digest, store).parents:
        if depth:
            branch.children.append(_branch(parent, store, depth - 1))
        else:
            branch.add(text("..."))
    return branch
