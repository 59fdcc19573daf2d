"""A closure as one file: what is exported is imported whole, and what was there stays."""

from __future__ import annotations

import time

import pytest
from archives import change_index
from stores import manifest, object_file, publish_memory, random_bytes

from kerncap_stages._native import CHUNK_SIZE_BYTES
from kerncap_stages.errors import ArtifactError, StoreError
from kerncap_stages.store.archive import export, import_archive
from kerncap_stages.store.artifacts import make_list_entry
from kerncap_stages.store.check import check_store


def test_import_gives_what_was_exported(store, other, tmp_path):
    parent, memory = publish_memory(store, random_bytes(3 * CHUNK_SIZE_BYTES))
    publish_memory(store, random_bytes(10), n=2)
    with store.begin_transaction() as transaction:
        child = transaction.publish(manifest("source", parents=[f"manifest:{parent}"]), "source", [parent])
    store.name("mine", child)
    seen = []
    export(store, [child], tmp_path / "a.tar", lambda *progress: seen.append(progress))
    assert seen[-1][0] == seen[-1][1]
    assert import_archive(other, tmp_path / "a.tar") == [child]
    assert check_store(other).ok
    assert other.names() == {"mine": child}
    listed = {entry.digest: entry for entry in store.list_artifacts()}
    assert other.list_artifacts() == [listed[child], listed[parent]]
    assert other.read_memory(memory).tobytes() == store.read_memory(memory).tobytes()


def test_equal_exports_are_equal_files(store, archive, tmp_path):
    export(store, [store.resolve("@")], tmp_path / "again.tar")
    assert (tmp_path / "again.tar").read_bytes() == archive.read_bytes()


def test_import_into_the_same_store_changes_nothing(store, archive):
    assert import_archive(store, archive) == [store.resolve("@")]
    assert check_store(store).ok


def test_export_of_an_artifact_with_a_missing_object_leaves_no_file(store, tmp_path):
    memory = random_bytes(CHUNK_SIZE_BYTES)
    artifact, digest = publish_memory(store, memory)
    object_file(store, digest).unlink()
    with pytest.raises(ArtifactError, match=digest):
        export(store, [artifact], tmp_path / "a.tar")
    assert not list(tmp_path.glob("*a.tar*"))


def test_only_listed_artifacts_are_exported(store, tmp_path):
    """An importer lists what was listed: of anything else nothing would be kept."""
    artifact, memory = publish_memory(store, random_bytes(10))
    store.remove(artifact)
    for digest in (artifact, memory):
        with pytest.raises(ArtifactError, match="not a listed artifact"):
            export(store, [digest], tmp_path / "archive")
    assert not list(tmp_path.glob("*archive*"))


def test_export_to_a_folder_that_is_not_there_is_an_error(store, tmp_path):
    publish_memory(store, random_bytes(10))
    with pytest.raises(StoreError, match="nowhere"):
        export(store, [store.resolve("@")], tmp_path / "nowhere" / "a.tar")


@pytest.mark.parametrize("ahead_ns", [10**9, 1 << 62])
def test_what_comes_from_a_clock_that_is_ahead_is_followed_by_what_is_made_here(
    store, other, tmp_path, ahead_ns
):
    now = time.time_ns()
    parent, _ = publish_memory(store, random_bytes(10))
    with store.begin_transaction() as transaction:
        child = transaction.put_bytes(manifest("source", parents=[f"manifest:{parent}"]))
        entry = make_list_entry("source", [parent], now + ahead_ns)
        transaction.publish_listed([(child, entry)])
    (store.root / "artifacts" / parent).write_bytes(make_list_entry("capture", [], now + ahead_ns - 1000))
    export(store, [child], tmp_path / "ahead")
    import_archive(other, tmp_path / "ahead")
    first, second = other.list_artifacts()
    assert (first.digest, second.digest) == (child, parent)
    assert first.created_at_ns - second.created_at_ns == 1000
    assert first.created_at_ns <= time.time_ns()
    later, _ = publish_memory(other, random_bytes(20), n=2)
    assert other.resolve("@") == later
    before = store.list_artifacts()
    import_archive(store, tmp_path / "ahead")
    assert store.list_artifacts() == before


def test_names_that_are_taken_stay(archive, store, other):
    change_index(
        archive,
        artifacts=[
            {
                "digest": store.resolve("@"),
                "kind": "capture",
                "created_at_ns": 1,
                "parents": [],
                "names": ["mine"],
            }
        ],
    )
    mine, _ = publish_memory(other, random_bytes(7), n=7)
    other.name("mine", mine)
    import_archive(other, archive)
    assert other.names() == {"mine": mine}


def test_an_artifact_whose_line_is_damaged_can_be_exported_and_imported(store, other, tmp_path):
    artifact, _ = publish_memory(store, random_bytes(10))
    (store.root / "artifacts" / artifact).write_bytes(b"damaged")
    export(store, [artifact], tmp_path / "a.tar")
    assert import_archive(other, tmp_path / "a.tar") == [artifact]
    assert [entry.kind for entry in other.list_artifacts()] == ["capture"]
