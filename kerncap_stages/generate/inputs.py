"""Reads the manifests from which a project is made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerncap_stages.generate.described import MAX_VARIABLE_BYTES
from kerncap_stages.generate.render import Part
from kerncap_stages.manifests import load, load_as
from kerncap_stages.manifests.capture import Capture
from kerncap_stages.manifests.source import Source

if TYPE_CHECKING:
    from kerncap_stages.digest import Digest
    from kerncap_stages.store import Store


def read_part(store: Store, digest: Digest) -> Part:
    """Read a capture with its source, or a capture alone.

    Raises ArtifactError if the artifact is neither.
    """
    manifest = load(store, digest)
    if isinstance(manifest, Source):
        capture = manifest.capture.digest
        return _make_part(store, capture, manifest)
    return _make_part(store, digest, None)


def _make_part(store: Store, digest: Digest, source: Source | None) -> Part:
    capture = load_as(store, digest, Capture)
    contents = {
        variable.pre.digest: store.read_memory(variable.pre.digest).tobytes()
        for variable in capture.module_variables
        if variable.pre is not None and store.read_memory_size(variable.pre.digest) <= MAX_VARIABLE_BYTES
    }
    return Part(digest, capture, source, contents=contents)
