"""A collection removes what no root reaches, and nothing else."""

from __future__ import annotations

import dataclasses
import os

import pytest
from stores import manifest, object_file, publish_memory, random_bytes

from kerncap_stages._native import CHUNK_SIZE_BYTES
from kerncap_stages.errors import ArtifactError, KerncapError
from kerncap_stages.store import Store, collect
from kerncap_stages.store.archive import export, import_archive
from kerncap_stages.store.check import check_store
from kerncap_stages.store.collect import collect_garbage
from kerncap_stages.store.usage import compare_usage, measure_usage, measure_usage_of_each


def objects(store):
    return {path.name for path in (store.root / "objects").glob("*/*")}


def test_what_listed_artifacts_reach_stays(store):
    publish_memory(store, random_bytes(3 * CHUNK_SIZE_BYTES))
    before = objects(store)
    report = collect_garbage(store)
    assert objects(store) == before
    assert (report.removed_objects, report.kept_objects) == (0, 5)


def test_what_was_made_from_an_artifact_is_found_through_others_and_each_is_read_once(store, monkeypatch):
    target, _ = publish_memory(store, random_bytes(10))
    other, _ = publish_memory(store, random_bytes(11))

    def publish(*parents):
        with store.begin_transaction() as transaction:
            references = [f"manifest:{each}" for each in parents]
            return transaction.publish(manifest("source", made_from=references), "source")

    child, unrelated = publish(target), publish(other)
    grandchild, mixed = publish(child), publish(unrelated, child)
    (object_file(store, publish(grandchild))).unlink()  # what it was made from cannot be told any more
    read, whole = [], store._read_list
    monkeypatch.setattr(store, "_read_list", lambda digest: read.append(digest) or whole(digest))
    assert set(store.find_dependents([target])) == {target, child, grandchild, mixed}
    assert len(read) == len(set(read))


def test_what_nobody_reaches_goes(store):
    artifact, _ = publish_memory(store, random_bytes(3 * CHUNK_SIZE_BYTES))
    size = sum(object_file(store, name).stat().st_size for name in objects(store))
    store.remove(artifact)
    assert collect_garbage(store, dry_run=True).removed_bytes == size
    assert len(objects(store)) == 5
    assert collect_garbage(store).removed_bytes == size
    assert objects(store) == set()


def test_chunks_that_others_share_stay(store):
    memory = random_bytes(4 * CHUNK_SIZE_BYTES)
    changed = memory.copy()
    changed[0] ^= 1
    first, _ = publish_memory(store, memory)
    _, kept = publish_memory(store, changed)
    store.remove(first)
    assert collect_garbage(store).removed_objects == 3  # one chunk, one list, one manifest
    assert store.read_memory(kept).tobytes() == changed.tobytes()


def test_parents_of_listed_artifacts_stay(store):
    parent, _ = publish_memory(store, random_bytes(10))
    with store.begin_transaction() as transaction:
        transaction.publish(manifest("source", parents=[f"manifest:{parent}"]), "source", [parent])
    store.remove(parent)
    assert collect_garbage(store).removed_objects == 0


def test_names_are_roots(store):
    artifact, _ = publish_memory(store, random_bytes(10))
    store.name("keep", artifact)
    (store.root / "artifacts" / artifact).unlink()
    assert collect_garbage(store).removed_objects == 0


def test_actions_are_not_roots(store):
    artifact, digest = publish_memory(store, random_bytes(10))
    store.actions.put(digest, artifact)
    store.remove(artifact)
    assert collect_garbage(store).removed_objects == 3


def test_a_pipe_in_place_of_a_file_is_not_waited_for(store):
    _, key = publish_memory(store, random_bytes(10))
    os.mkfifo(store.root / "actions" / key)
    (store.root / "tmp" / "odd").mkdir()
    os.mkfifo(store.root / "tmp" / "odd" / "pins")
    os.mkfifo(store.root / "tmp" / "odd" / "live")
    assert store.actions.get(key) is None
    assert collect_garbage(store).removed_objects == 0
    assert [fault.what for fault in check_store(store).faults] == [f"actions/{key}"]
    (store.root / "format").unlink()
    os.mkfifo(store.root / "format")
    with pytest.raises(KerncapError):
        Store.open(store.root)


def test_what_a_live_transaction_builds_on_stays(store):
    memory = random_bytes(2 * CHUNK_SIZE_BYTES)
    artifact, digest = publish_memory(store, memory)
    store.remove(artifact)
    with store.begin_transaction() as transaction:
        assert transaction.put_memory(memory) == digest  # known: nothing is written
        assert transaction.get_counts()["new_bytes"] == 0
        other = Store.open(store.root)
        assert collect_garbage(other).removed_objects == 1  # the manifest alone
        transaction.publish(manifest(memory=f"memory:{digest}"), "capture")
    assert check_store(store).ok
    assert store.read_memory(digest).tobytes() == memory.tobytes()


def test_what_a_live_transaction_has_staged_stays(store):
    memory = random_bytes(2 * CHUNK_SIZE_BYTES)
    with store.begin_transaction() as transaction:
        digest = transaction.put_memory(memory)
        assert collect_garbage(Store.open(store.root)).dead_transactions == 0
        transaction.publish(manifest(memory=f"memory:{digest}"), "capture")
    assert check_store(store).ok


def test_dead_transactions_are_removed(store):
    dead = store.root / "tmp" / "0123456789abcdef01234567"
    dead.mkdir()
    (dead / "live").touch()
    (dead / ("0" * 64)).write_bytes(b"half an obj")
    (store.root / "tmp" / "small-abc").write_bytes(b"")
    assert collect_garbage(store).dead_transactions == 2
    assert list((store.root / "tmp").iterdir()) == []


def test_a_new_transaction_removes_dead_ones(store):
    dead = store.root / "tmp" / "0123456789abcdef01234567"
    dead.mkdir()
    with store.begin_transaction():
        assert not dead.exists()


def test_nothing_is_removed_when_a_root_cannot_be_followed(store):
    first, _ = publish_memory(store, random_bytes(10))
    artifact, _ = publish_memory(store, random_bytes(20), n=2)
    store.remove(first)
    path = object_file(store, artifact)
    path.chmod(0o600)
    path.write_bytes(b"damaged")
    before = objects(store)
    with pytest.raises(ArtifactError, match=f"nothing was removed.*{artifact}"):
        collect_garbage(store)
    assert objects(store) == before
    store.remove(artifact)
    collect_garbage(store)
    assert objects(store) == set()


@pytest.mark.parametrize("of", ["manifest", "list"])
def test_nothing_is_removed_when_a_root_has_lost_what_leads_on(store, of):
    """What it led to may be all that is left of it: an import of the rest makes it whole again."""
    memory = random_bytes(3 * CHUNK_SIZE_BYTES)
    artifact, digest = publish_memory(store, memory)
    export(store, [artifact], store.root.with_name("archive"))
    object_file(store, artifact if of == "manifest" else digest).unlink()
    before = objects(store)
    with pytest.raises(ArtifactError, match=r"nothing was removed.*is missing"):
        collect_garbage(store)
    assert objects(store) == before
    import_archive(store, store.root.with_name("archive"))
    assert check_store(store).ok
    assert collect_garbage(store).removed_objects == 0


def test_usage_tells_sizes_and_sharing(store):
    memory = random_bytes(4 * CHUNK_SIZE_BYTES)
    changed = memory.copy()
    changed[0] ^= 1
    first, _ = publish_memory(store, memory)
    publish_memory(store, changed)
    [usage] = measure_usage_of_each(store, [first])
    assert usage.objects == 6
    assert measure_usage(store, first) == dataclasses.replace(usage, shared_bytes=0)
    assert 4 * CHUNK_SIZE_BYTES < usage.logical_bytes < 4 * CHUNK_SIZE_BYTES + 1000
    shared = 3 * (CHUNK_SIZE_BYTES + 14 + 16 * 3 + 8 * 3)  # three raw frames
    assert usage.shared_bytes == shared
    assert measure_usage(store).objects == 9


def test_compressible_memory_takes_less_room(store):
    _, digest = publish_memory(store, random_bytes(CHUNK_SIZE_BYTES) % 4)
    usage = measure_usage(store, store.resolve("@"))
    assert usage.stored_bytes < 0.35 * usage.logical_bytes
    assert store.read_memory(digest).max() == 3


def test_what_a_live_transaction_has_published_stays(store):
    memory = random_bytes(2 * CHUNK_SIZE_BYTES)
    with store.begin_transaction() as transaction:
        digest = transaction.put_memory(memory)
        transaction.publish_objects()
        assert collect_garbage(Store.open(store.root)).removed_objects == 0
        artifact = transaction.publish(manifest(memory=f"memory:{digest}"), "capture")
    assert check_store(store).ok
    store.remove(artifact)
    assert collect_garbage(store).removed_objects == 4


def test_every_artifact_is_walked_once_for_all_usages(store, monkeypatch):
    memory = random_bytes(CHUNK_SIZE_BYTES)
    digests = [publish_memory(store, memory, n=number)[0] for number in range(20)]
    walks = []
    walk = Store.walk
    monkeypatch.setattr(
        Store, "walk", lambda self, *given, **how: walks.append(1) or walk(self, *given, **how)
    )
    usages = measure_usage_of_each(store, digests)
    assert len(walks) <= len(digests)
    assert len({usage.shared_bytes for usage in usages}) == 1
    assert CHUNK_SIZE_BYTES < usages[0].shared_bytes < usages[0].stored_bytes


def test_an_artifact_is_compared_with_as_many_as_a_bound_allows(store, monkeypatch):
    memory = random_bytes(CHUNK_SIZE_BYTES)
    digests = [publish_memory(store, memory, n=number)[0] for number in range(20)]
    everything, compared = compare_usage(store, digests[0], digests, 1 << 30)
    assert compared == 20
    assert [everything] == measure_usage_of_each(store, digests[:1])
    reads = []
    read = Store.read_declared_size
    monkeypatch.setattr(
        Store, "read_declared_size", lambda self, digest: reads.append(digest) or read(self, digest)
    )
    some, compared = compare_usage(store, digests[0], digests, 100 << 10)
    assert 0 < compared < 10
    assert len(reads) < 20
    assert some == everything  # the first one it was compared with holds the same chunk
    assert compare_usage(store, digests[0], digests, 0) == (dataclasses.replace(some, shared_bytes=0), 0)


def test_what_an_artifact_was_made_from_shares_nothing_with_it(store):
    parent, memory = publish_memory(store, random_bytes(10))
    references = {"memory": f"memory:{memory}", "parents": [f"manifest:{parent}"]}
    with store.begin_transaction() as transaction:
        child = transaction.publish(manifest("source", **references), "source", [parent])
    below, above = measure_usage_of_each(store, [parent, child])
    assert above.shared_bytes == 0
    assert above.objects == below.objects + 1
    assert 0 < below.shared_bytes < below.stored_bytes  # all but its manifest, which the child does not hold


def test_a_directory_among_the_objects_stops_no_collection(store):
    artifact, _ = publish_memory(store, random_bytes(10))
    stray = store.root / "objects" / "ab" / ("ab" + "0" * 62)
    stray.mkdir(parents=True)
    before = measure_usage(store, artifact).objects
    store.remove(artifact)
    report = collect_garbage(store)
    assert (report.removed_objects, report.kept_objects) == (before, 0)
    assert stray.is_dir()
    [fault] = check_store(store).faults
    assert (fault.kind, fault.what) == ("stray", f"objects/ab/{stray.name}")


@pytest.mark.parametrize("kind", ["kept", "memory"])
def test_what_became_whole_between_the_two_looks_stays(store, monkeypatch, kind):
    """The first look is made while others may write; only the second one under a lock."""
    memory = random_bytes(3 * CHUNK_SIZE_BYTES)
    with store.begin_transaction() as transaction:
        optional = transaction.put_memory(memory)
        transaction.publish(manifest(other=f"{kind}:{optional}"), "capture", [])
    object_file(store, store.read_chunk_list(optional)[2][0]).unlink()
    mark = collect._mark

    def mark_then_write(store, known):
        reached = mark(store, known)
        if known is None:
            with store.begin_transaction() as transaction:
                transaction.put_memory(memory)
                transaction.publish_objects()
        return reached

    monkeypatch.setattr(collect, "_mark", mark_then_write)
    assert collect_garbage(store).removed_objects == 0
    assert store.has_memory(optional)
