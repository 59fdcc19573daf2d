"""The head of an artifact's page, the tree of its parents, and lists of artifacts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.tree import Tree

from kerncap_stages.errors import ArtifactError
from kerncap_stages.pages.parts import Fact, list_facts, make_table, wrap_text
from kerncap_stages.store.subjects import Summary, summarise_manifest
from kerncap_stages.store.usage import compare_usage
from kerncap_stages.text import formats

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from kerncap_stages.digest import Digest
    from kerncap_stages.manifests.base import Manifest
    from kerncap_stages.store import ArtifactEntry, Store

# Deeper than any chain of stages; a tree that goes on is cut.
_MAX_TREE_DEPTH = 16
_MAX_TREE_LINES = 200
# These limit what a page reads to about half a second, whatever the store holds.
_SHORT_BYTES = 256 << 10
_MAX_LONG_BYTES = 16 << 20  # in all, of manifests that are not short
_MAX_COMPARED_BYTES = 4 << 20


def make_head(digest: Digest, manifest: Manifest, store: Store) -> Iterator[RenderableType]:
    """Show what every artifact has: digest, names, parents, sizes."""
    names = sorted(name for name, named in store.names().items() if named == digest)
    summaries = _Summaries(store)
    yield wrap_text(f"{manifest.kind} {digest}", "bold")
    yield list_facts(
        [
            ("names", ", ".join(names) or None),
            ("made by", manifest.made_by),
            *(("parent", summaries.format_line(reference.digest)) for reference in manifest.parents),
            *_show_size(digest, store),
        ]
    )


def _show_size(digest: Digest, store: Store) -> Iterator[Fact]:
    latest_first = [entry.digest for entry in store.list_artifacts()]
    listed = len(latest_first)
    usage, compared = compare_usage(store, digest, latest_first, _MAX_COMPARED_BYTES)
    yield (
        "size",
        f"{formats.format_size(usage.logical_bytes)}, {formats.format_size(usage.stored_bytes)} on disk",
    )
    shared = formats.format_size(usage.shared_bytes)
    if compared < listed:
        yield (
            "shared",
            f"{shared} of that with the latest {compared:,} of {listed:,} artifacts; "
            f"`kc-store du {digest.short}` compares with all",
        )
    else:
        yield "shared", f"{shared} of that with other artifacts"


def make_tree(digest: Digest, store: Store) -> Tree:
    """Show an artifact, below it its parents, below them theirs, and so on; each artifact's once."""
    summaries = _Summaries(store)
    top = Tree(wrap_text(summaries.format_line(digest)))
    waiting = [(top, digest, 0)]
    shown = {digest}
    lines = 1
    while waiting:
        branch, child, depth = waiting.pop(0)
        for parent in summaries.summarize(child).parents:
            lines += 1
            if depth == _MAX_TREE_DEPTH or lines > _MAX_TREE_LINES:
                branch.add(wrap_text("..."))
                break
            above = branch.add(wrap_text(summaries.format_line(parent) + "  (see above)" * (parent in shown)))
            if parent not in shown:
                shown.add(parent)
                waiting.append((above, parent, depth + 1))
    return top


def make_listing(entries: Sequence[ArtifactEntry], store: Store, now: float) -> RenderableType:
    """List artifacts."""
    summaries = _Summaries(store)
    return make_table(
        ["=artifact", "kind", ">age", "names", "about"],
        (
            (
                entry.digest.short,
                entry.kind,
                formats.format_age(now - entry.created_at),
                ", ".join(entry.names),
                summaries.summarize(entry.digest).subject,
            )
            for entry in entries
        ),
    )


class _Summaries:
    """Summaries for one page. It reads long manifests only up to a limit."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._left_bytes = _MAX_LONG_BYTES
        self._read: dict[Digest, Summary] = {}

    def summarize(self, digest: Digest) -> Summary:
        """Return what a manifest is about, or why it was not read."""
        if digest not in self._read:
            self._read[digest] = self._summarise(digest)
        return self._read[digest]

    def format_line(self, digest: Digest) -> str:
        """Return the digest and the summary in one line."""
        summary = self.summarize(digest)
        return f"{digest.short}  {summary.kind}  {summary.subject}"

    def _summarise(self, digest: Digest) -> Summary:
        size_bytes = self._store.read_declared_size(digest)
        if size_bytes > _SHORT_BYTES:
            if size_bytes > self._left_bytes:
                return Summary("?", f"not read: its manifest has {formats.format_size(size_bytes)}", ())
            self._left_bytes -= size_bytes
        try:
            return summarise_manifest(self._store.get(digest))
        except ArtifactError as error:
            return Summary("?", f"cannot be read: {error}", ())
