"""A closure copied from one store into another."""

from __future__ import annotations

import hashlib
import os

import pytest
from stores import manifest, object_file, publish_memory, random_bytes

from kerncap_stages._native import CHUNK_SIZE_BYTES
from kerncap_stages.errors import ArtifactError, DigestMismatch, Refused
from kerncap_stages.store import Store
from kerncap_stages.store.archive import export, import_archive
from kerncap_stages.store.check import check_store
from kerncap_stages.store.collect import collect_garbage
from kerncap_stages.store.copying import copy_closure, list_in_other_store
from kerncap_stages.store.usage import measure_usage


def test_copy_closure_makes_a_whole_store(store, tmp_path):
    artifact, memory = publish_memory(store, random_bytes(3 * CHUNK_SIZE_BYTES))
    copy_closure(store, [artifact], Store.open(tmp_path / "project" / "store"))
    copy = Store.open(tmp_path / "project" / "store", create=False)
    assert check_store(copy).ok
    assert copy.list_artifacts() == store.list_artifacts()
    path = object_file(copy, memory)
    assert path.stat().st_ino != object_file(store, memory).stat().st_ino


def test_copy_closure_refuses_damage(store, tmp_path):
    artifact, _ = publish_memory(store, random_bytes(3 * CHUNK_SIZE_BYTES))
    path = object_file(store, sorted(store.find_closure(artifact).kinds)[0])
    path.chmod(0o600)
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(ArtifactError):
        copy_closure(store, [artifact], Store.open(tmp_path / "copy"))
    assert Store.open(tmp_path / "copy").list_artifacts() == []


def test_what_is_listed_in_another_store_too_is_the_latest_there(store, other):
    older, _ = publish_memory(store, random_bytes(3 * CHUNK_SIZE_BYTES))
    own, _ = publish_memory(other, random_bytes(7), n=7)
    list_in_other_store(store, older, other)
    assert [entry.digest for entry in other.list_artifacts()] == [older, own]
    assert check_store(other).ok
    other.list_again(own)
    list_in_other_store(store, older, other)
    assert [entry.digest for entry in other.list_artifacts()] == [older, own]


def test_what_needs_more_room_than_the_other_store_has_is_not_copied(store, other, monkeypatch):
    artifact, _ = publish_memory(store, random_bytes(3 * CHUNK_SIZE_BYTES))
    full = os.statvfs_result((4096, 4096, 1000, 1, 1, 10, 10, 10, 0, 255))
    monkeypatch.setattr("os.statvfs", lambda _place: full)
    with pytest.raises(Refused):
        list_in_other_store(store, artifact, other)
    assert other.list_artifacts() == []
    assert measure_usage(other).objects == 0


def publish_kept(store, memory, kept):
    """Publish an artifact with a memory that it needs and one that a store may lack."""
    with store.begin_transaction() as transaction:
        needed, optional = transaction.put_memory(memory), transaction.put_memory(kept)
        made = manifest(memory=f"memory:{needed}", other=f"kept:{optional}")
        return transaction.publish(made, "capture", []), needed, optional


def test_what_is_kept_for_later_stays_in_its_own_store(store, other):
    artifact, needed, optional = publish_kept(store, random_bytes(7), random_bytes(3 * CHUNK_SIZE_BYTES, 1))
    assert collect_garbage(store).removed_objects == 0
    assert store.has_memory(optional)
    list_in_other_store(store, artifact, other)
    assert [entry.digest for entry in other.list_artifacts()] == [artifact]
    assert (other.has_memory(needed), other.has_memory(optional)) == (True, False)
    assert not other.has(optional)
    assert check_store(other).ok
    assert collect_garbage(other).removed_objects == 0


def test_what_is_kept_is_copied_with_a_whole_store(store, other):
    artifact, _, optional = publish_kept(store, random_bytes(7), random_bytes(3 * CHUNK_SIZE_BYTES, 1))
    copy_closure(store, [artifact], other)
    assert other.has_memory(optional)
    assert collect_garbage(other).removed_objects == 0


def test_what_is_kept_and_has_lost_a_chunk_is_garbage(store):
    memory = random_bytes(3 * CHUNK_SIZE_BYTES, 1)
    artifact, needed, optional = publish_kept(store, random_bytes(7), memory)
    chunk = hashlib.sha256(memory[:CHUNK_SIZE_BYTES].tobytes()).hexdigest()
    object_file(store, chunk).unlink()
    assert check_store(store).ok
    assert not store.has_memory(optional)
    assert collect_garbage(store).removed_objects == 3  # the list, and the two chunks that were left
    assert store.has(artifact)
    assert store.has_memory(needed)


def damage_kept(store):
    """Publish an artifact as ``publish_kept`` does, with a damaged chunk of the memory that may lack."""
    memory = random_bytes(3 * CHUNK_SIZE_BYTES, 1)
    published = publish_kept(store, random_bytes(7), memory)
    chunk = hashlib.sha256(memory[:CHUNK_SIZE_BYTES].tobytes()).hexdigest()
    damage(object_file(store, chunk))
    return *published, chunk


def damage(path):
    path.chmod(0o600)
    path.write_bytes(path.read_bytes()[:-3])


def test_what_is_kept_and_damaged_is_not_copied(store, other):
    artifact, needed, optional, _ = damage_kept(store)
    copy_closure(store, [artifact], other)
    assert [entry.digest for entry in other.list_artifacts()] == [artifact]
    assert (other.has_memory(needed), other.has_memory(optional)) == (True, False)
    assert check_store(other).ok


def test_what_is_kept_and_damaged_is_not_exported(store, other, tmp_path):
    artifact, needed, optional, _ = damage_kept(store)
    export(store, [artifact], tmp_path / "archive.tar")
    assert import_archive(other, tmp_path / "archive.tar") == [artifact]
    assert (other.has_memory(needed), other.has_memory(optional)) == (True, False)
    assert not other.has(optional)
    assert check_store(other).ok


def test_what_is_kept_and_whole_is_exported(store, other, tmp_path):
    artifact, _, optional = publish_kept(store, random_bytes(7), random_bytes(3 * CHUNK_SIZE_BYTES, 1))
    export(store, [artifact], tmp_path / "archive.tar")
    assert import_archive(other, tmp_path / "archive.tar") == [artifact]
    assert other.has_memory(optional)


def test_an_artifact_is_whole_without_what_is_kept_and_damaged(store):
    artifact, needed, optional, chunk = damage_kept(store)
    (fault,) = check_store(store).faults
    assert (fault.kind, fault.what, fault.artifacts) == ("damaged", chunk, ())
    assert check_store(store, repair=True).set_aside == (chunk,)
    assert check_store(store).ok
    assert not store.has_memory(optional)
    assert (store.has(artifact), store.has_memory(needed)) == (True, True)


def test_a_damaged_chunk_that_is_needed_is_no_less_damage_because_it_is_kept_too(store, other, tmp_path):
    memory = random_bytes(3 * CHUNK_SIZE_BYTES, 1)
    artifact, needed, _ = publish_kept(store, memory, memory)
    damage(object_file(store, store.read_chunk_list(needed)[2][0]))
    with pytest.raises(DigestMismatch):
        copy_closure(store, [artifact], other)
    with pytest.raises(DigestMismatch, match="cannot export"):
        export(store, [artifact], tmp_path / "archive.tar")
    assert [fault.artifacts for fault in check_store(store).faults] == [(artifact,)]


def test_a_kept_memory_whose_chunk_has_another_size_makes_no_artifact_unusable(store):
    artifact, _, optional = publish_kept(store, random_bytes(7), random_bytes(3 * CHUNK_SIZE_BYTES, 1))
    chunk = store.read_chunk_list(optional)[2][0]
    with store.begin_transaction() as transaction:
        other = transaction.put_bytes(b"other")
        transaction.publish_objects()
    listed = store.get(optional).replace(chunk.encode(), other.encode())
    with store.begin_transaction() as transaction:
        wrong = transaction.put_bytes(listed)
        transaction.publish(manifest(parent=f"manifest:{artifact}", other=f"kept:{wrong}"), "capture", [])
    (fault,) = check_store(store).faults
    assert (fault.kind, fault.what, fault.artifacts) == ("malformed", wrong, ())
