"""Objects that are used in two ways: as a chunk and as a manifest, as a file and as memory."""

from __future__ import annotations

import numpy as np
import pytest
from stores import manifest, object_file, publish_memory, random_bytes

from kerncap_stages._native import CHUNK_SIZE_BYTES
from kerncap_stages.errors import ArtifactError
from kerncap_stages.store import Store
from kerncap_stages.store.archive import export, import_archive
from kerncap_stages.store.check import check_store
from kerncap_stages.store.collect import collect_garbage
from kerncap_stages.store.copying import copy_closure


def put_as_file(store, payload):
    """What `kc-show --json X > x.json; kc-store put x.json` does: its object is the manifest's own."""
    with store.begin_transaction() as transaction:
        file = transaction.put_bytes(payload)
        return transaction.publish(manifest("notes", content=f"file:{file}"), "notes")


@pytest.mark.parametrize("of", ["manifest", "list"])
def test_an_object_that_is_also_a_file_still_leads_on(store, tmp_path, of):
    artifact, memory = publish_memory(store, random_bytes(2 * CHUNK_SIZE_BYTES))
    file = put_as_file(store, store.get(artifact if of == "manifest" else memory))
    chunks = {digest for digest, kind in store.find_closure(artifact).kinds.items() if kind == "chunk"}
    assert len(chunks) == 2
    for roots in ([artifact, file], [file, artifact]):
        assert chunks <= store.walk(roots).kinds.keys()
    collect_garbage(store)
    assert store.read_memory(memory).size == 2 * CHUNK_SIZE_BYTES
    # As a file it leads to nothing.
    assert store.find_closure(file).kinds.keys().isdisjoint(chunks)
    export(store, [file], tmp_path / "archive")
    other = Store.open(tmp_path / "other")
    assert import_archive(other, tmp_path / "archive") == [file]
    copy_closure(store, [file], Store.open(tmp_path / "copy"))
    for without in (other, Store.open(tmp_path / "copy")):
        assert [entry.digest for entry in without.list_artifacts()] == [file]
        assert check_store(without).ok


def test_an_object_of_two_kinds_in_one_manifest_leads_on(store):
    artifact, memory = publish_memory(store, random_bytes(CHUNK_SIZE_BYTES))
    for first, second in (
        ("file", "memory"),
        ("memory", "file"),
        ("manifest", "memory"),
        ("memory", "manifest"),
    ):
        with store.begin_transaction() as transaction:
            references = [f"{first}:{memory}", f"{second}:{memory}"]
            both = transaction.publish(manifest("capture", of=references), "capture")
        assert "chunk" in store.find_closure(both).kinds.values()
    for reference in (f"file:{artifact}", f"manifest:{artifact}"):
        with store.begin_transaction() as transaction:
            both = transaction.publish(
                manifest("source", of=[reference], z=[f"manifest:{artifact}"]), "source"
            )
        assert "chunk" in store.find_closure(both).kinds.values()


def test_a_chunk_that_is_also_a_manifest_still_leads_on(store):
    artifact, memory = publish_memory(store, random_bytes(CHUNK_SIZE_BYTES))
    holder, _ = publish_memory(store, np.frombuffer(store.get(artifact), np.uint8), n=2)
    for roots in ([artifact, holder], [holder, artifact]):
        closure = store.walk(roots)
        assert memory in closure.kinds
        assert len(closure.manifests) == 2
    collect_garbage(store)
    assert store.read_memory(memory).size == CHUNK_SIZE_BYTES


def test_nothing_is_removed_when_a_missing_file_turns_out_to_be_a_manifest(store):
    artifact, _ = publish_memory(store, random_bytes(10))
    put_as_file(store, store.get(artifact))
    object_file(store, artifact).unlink()
    with pytest.raises(ArtifactError, match="nothing was removed"):
        collect_garbage(store)
    closure = store.walk([entry.digest for entry in store.list_artifacts("files")])
    assert not closure.untraced
    assert store.walk([artifact], closure).untraced
