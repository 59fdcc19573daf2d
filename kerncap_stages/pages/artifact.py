"""What is around a manifest: its head, its parents as a tree, and lists of artifacts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.tree import Tree

from kerncap_stages.errors import ArtifactError
from kerncap_stages.pages.parts import Fact, facts, table, text
from kerncap_stages.store.subjects import Summary, summary_of
from kerncap_stages.store.usage import usage_beside
from kerncap_stages.text import formats

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from kerncap_stages.digest import Digest
    from kerncap_stages.manifests.base import Manifest
    from kerncap_stages.store import ArtifactEntry, Store

# Longer than any chain of stages; a tree that goes on is shown cut.
_DEEPEST_TREE = 16
_LONGEST_TREE = 200
# Bounds what a page reads, whatever a store holds: about half a second.
_SHORT_BYTES = 256 << 10
_MOST_LONG_BYTES = 16 << 20  # of manifests that are not short
_MOST_COMPARED_BYTES = 4 << 20


def head(digest: Digest, manifest: Manifest, store: Store) -> Iterator[RenderableType]:
    """Show what every artifact has: digest, names, parents, sizes."""
    names = sorted(name for name, named in store.names().items() if named == digest)
    summaries = _Summaries(store)
    yield text(f"{manifest.kind} {digest}", "bold")
    yield facts(
        [
            ("names", ", ".join(names) or None),
            ("made by", manifest.made_by),
            *(("parent", summaries.line(reference.digest)) for reference in manifest.parents),
            *_room(digest, store),
        ]
    )


def _room(digest: Digest, store: Store) -> Iterator[Fact]:
    latest_first = [entry.digest for entry in store.artifacts()]
    listed = len(latest_first)
    usage, compared = usage_beside(store, digest, latest_first, _MOST_COMPARED_BYTES)
    yield "size", f"{formats.size(usage.logical_bytes)}, {formats.size(usage.stored_bytes)} on disk"
    shared = formats.size(usage.shared_bytes)
    if compared < listed:
        yield (
            "shared",
            f"{shared} of that with the latest {compared:,} of {listed:,} artifacts; "
            f"`kc-store du {digest.short}` looks at all",
        )
    else:
        yield "shared", f"{shared} of that with other artifacts"


def tree(digest: Digest, store: Store) -> Tree:
    """Show an artifact above those that it was made from, and so on to the first; parents once."""
    summaries = _Summaries(store)
    top = Tree(text(summaries.line(digest)))
    waiting = [(top, digest, 0)]
    shown = {digest}
    lines = 1
    while waiting:
        branch, child, depth = waiting.pop(0)
        for parent in summaries.of(child).parents:
            lines += 1
            if depth == _DEEPEST_TREE or lines > _LONGEST_TREE:
                branch.add(text("..."))
                break
            above = branch.add(text(summaries.line(parent) + "  (see above)" * (parent in shown)))
            if parent not in shown:
                shown.add(parent)
                waiting.append((above, parent, depth + 1))
    return top


def listing(entries: Sequence[ArtifactEntry], store: Store, now: float) -> RenderableType:
    """List artifacts."""
    summaries = _Summaries(store)
    return table(
        ["=artifact", "kind", ">age", "names", "about"],
        (
            (
                entry.digest.short,
                entry.kind,
                formats.age(now - entry.created_at),
                ", ".join(entry.names),
                summaries.of(entry.digest).subject,
            )
            for entry in entries
        ),
    )


class _Summaries:
    """Summaries for one page, which reads long manifests only up to a bound."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._left_bytes = _MOST_LONG_BYTES
        self._read: dict[Digest, Summary] = {}

    def of(self, digest: Digest) -> Summary:
        """What a manifest is about, or why that is not said."""
        if digest not in self._read:
            self._read[digest] = self._summary(digest)
        return self._read[digest]

    def line(self, digest: Digest) -> str:
        """The same in one line with its digest."""
        summary = self.of(digest)
        return f"{digest.short}  {summary.kind}  {summary.subject}"

    def _summary(self, digest: Digest) -> Summary:
        size_bytes = self._store.declared_size(digest)
        if size_bytes > _SHORT_BYTES:
            if size_bytes > self._left_bytes:
                return Summary("?", f"not read here: its manifest has {formats.size(size_bytes)}", ())
            self._left_bytes -= size_bytes
        try:
            return summary_of(self._store.get(digest))
        except ArtifactError as error:
            return Summary("?", f"cannot be read: {error}", ())
