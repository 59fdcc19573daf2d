"""A closure as one file: whole, verified, and never more than objects."""

from __future__ import annotations

import io
import json
import os
import tarfile
import time

import pytest
from stores import manifest, object_file, publish_memory, random_bytes

from kerncap_stages._native import CHUNK_SIZE_BYTES
from kerncap_stages.errors import ArtifactError, DigestMismatch, Refused, StoreError
from kerncap_stages.store import Store
from kerncap_stages.store.archive import export, import_archive
from kerncap_stages.store.artifacts import make_list_entry
from kerncap_stages.store.check import check_store
from kerncap_stages.store.copying import copy_closure, list_in_other_store
from kerncap_stages.store.usage import measure_usage


@pytest.fixture
def other(tmp_path):
    return Store.open(tmp_path / "other")


@pytest.fixture
def archive(store, tmp_path):
    publish_memory(store, random_bytes(3 * CHUNK_SIZE_BYTES))
    path = tmp_path / "archive.tar"
    export(store, [store.resolve("@")], path)
    return path


def rewrite(path, change):
    """Write an archive again, its members changed: change(name, content) gives the new ones."""
    members = []
    with tarfile.open(path) as archive:
        for member in archive:
            members += change(member.name, archive.extractfile(member).read())
    with tarfile.open(path, "w") as archive:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


def nothing_came(store):
    return store.list_artifacts() == [] and not list((store.root / "objects").glob("*/*"))


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


@pytest.mark.parametrize("keep", [0, 1, 511, 512, 0.3, 0.9])
def test_a_truncated_archive_is_refused(archive, other, keep):
    content = archive.read_bytes()
    archive.write_bytes(content[: int(keep * len(content)) if keep < 1 else keep])
    with pytest.raises(DigestMismatch, match="archive"):
        import_archive(other, archive)
    assert nothing_came(other)


def test_a_bit_flip_anywhere_in_an_object_is_refused(archive, other):
    content = bytearray(archive.read_bytes())
    content[len(content) // 2] ^= 4
    archive.write_bytes(content)
    with pytest.raises(DigestMismatch, match="archive"):
        import_archive(other, archive)
    assert nothing_came(other)


def test_an_archive_that_lacks_an_object_is_refused(archive, other):
    names = []
    rewrite(
        archive, lambda name, content: names.append(name) or ([] if len(names) == 3 else [(name, content)])
    )
    with pytest.raises(ArtifactError):
        import_archive(other, archive)
    assert nothing_came(other)


@pytest.mark.parametrize(
    "name",
    [
        "../../escape",
        "/etc/escape",
        "objects/../../escape",
        "objects/ab/escape",
        f"objects/ab/cd{'0' * 62}",
        f"./objects/ab/ab{'0' * 62}",
        f"objects/ab/ab{'0' * 62}/..",
        "names/x",
    ],
)
def test_no_member_leaves_its_place(archive, other, tmp_path, name):
    before = sorted(tmp_path.rglob("*"))
    rewrite(archive, lambda member, content: [(member, content)] + [(name, b"x")] * (member != "kerncap"))
    with pytest.raises(DigestMismatch, match="is not an object"):
        import_archive(other, archive)
    assert sorted(tmp_path.rglob("*")) == before
    assert nothing_came(other)


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE])
def test_a_member_that_is_no_file_is_refused(archive, other, kind):
    with tarfile.open(archive, "a") as opened:
        member = tarfile.TarInfo(f"objects/ab/ab{'0' * 62}")
        member.type = kind
        member.linkname = "/etc/passwd"
        opened.addfile(member)
    with pytest.raises(DigestMismatch, match="is not an object"):
        import_archive(other, archive)
    assert nothing_came(other)


def change_index(path, **changes):
    def change(name, content):
        if name != "kerncap-archive.json":
            return [(name, content)]
        return [(name, json.dumps(json.loads(content) | changes).encode())]

    rewrite(path, change)


def test_an_archive_of_another_version_is_refused(archive, other):
    change_index(archive, version=2)
    with pytest.raises(Refused, match="version 2"):
        import_archive(other, archive)


@pytest.mark.parametrize(
    "entry",
    [
        {},
        {"digest": "../x", "kind": "capture", "created_at_ns": 1, "parents": [], "names": []},
        {"digest": "0" * 64, "kind": 3, "created_at_ns": 1, "parents": [], "names": []},
        {"digest": "0" * 64, "kind": "capture", "created_at_ns": 1, "parents": [], "names": ["../../x"]},
        {"digest": "0" * 64, "kind": "capture", "created_at_ns": 1, "parents": ["x"], "names": []},
        {"digest": "0" * 64, "kind": "capture", "created_at_ns": 10**400, "parents": [], "names": []},
        {"digest": "0" * 64, "kind": "capture", "created_at_ns": -1, "parents": [], "names": []},
        {"digest": "0" * 64, "kind": "\ud800", "created_at_ns": 1, "parents": [], "names": []},
        {"digest": "0" * 64, "kind": "a\nb", "created_at_ns": 1, "parents": [], "names": []},
    ],
)
def test_a_malformed_list_of_artifacts_is_refused(archive, other, entry):
    change_index(archive, artifacts=[entry])
    with pytest.raises(DigestMismatch, match="malformed"):
        import_archive(other, archive)
    assert nothing_came(other)


@pytest.mark.parametrize("exported", [False, True])
def test_an_archive_that_lists_what_it_lacks_is_refused(archive, store, other, exported):
    entry = {"digest": "0" * 64, "kind": "capture", "created_at_ns": 1, "parents": [], "names": []}
    there = entry | {"digest": store.resolve("@")}
    change_index(
        archive, artifacts=[there, entry], exported=[entry["digest"] if exported else there["digest"]]
    )
    with pytest.raises(ArtifactError, match="0" * 64):
        import_archive(other, archive)
    assert nothing_came(other)


def test_an_archive_whose_list_is_no_list_of_what_it_exports_is_refused(archive, store, other):
    [entry] = store.list_artifacts()
    memory = json.loads(store.get(entry.digest))["memory"].removeprefix("memory:")
    listed = {"digest": entry.digest, "kind": "capture", "created_at_ns": 1, "parents": [], "names": []}
    chunks = listed | {"digest": memory, "kind": "memory", "names": ["mine"]}
    for artifacts in ([], {}, [listed, listed], [listed, chunks], [listed | {"digest": "0" * 64}]):
        change_index(archive, artifacts=artifacts)
        with pytest.raises(DigestMismatch, match="malformed"):
            import_archive(other, archive)
        assert nothing_came(other)


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


@pytest.mark.parametrize("header", [{"GNU.sparse.map": "a,b"}, {"GNU.sparse.size": "x"}, {"size": "9" * 15}])
def test_a_malformed_member_is_refused(archive, other, header):
    with tarfile.open(archive, "a", format=tarfile.PAX_FORMAT) as opened:
        member = tarfile.TarInfo(f"objects/ab/ab{'0' * 62}")
        member.pax_headers = header
        opened.addfile(member)
    with pytest.raises(ArtifactError):
        import_archive(other, archive)
    assert nothing_came(other)


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


def test_copy_closure_makes_a_whole_store(store, tmp_path):
    artifact, memory = publish_memory(store, random_bytes(3 * CHUNK_SIZE_BYTES))
    copy_closure(store, [artifact], Store.open(tmp_path / "project" / "store"))
    copy = Store.open(tmp_path / "project" / "store", create=False)
    assert check_store(copy).ok
    assert copy.list_artifacts() == store.list_artifacts()
    path = object_file(copy, memory)
    assert path.stat().st_ino != object_file(store, memory).stat().st_ino


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


def test_copy_closure_refuses_damage(store, tmp_path):
    artifact, _ = publish_memory(store, random_bytes(3 * CHUNK_SIZE_BYTES))
    path = object_file(store, sorted(store.find_closure(artifact).kinds)[0])
    path.chmod(0o600)
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(ArtifactError):
        copy_closure(store, [artifact], Store.open(tmp_path / "copy"))
    assert Store.open(tmp_path / "copy").list_artifacts() == []


def change_listed(path, **changes):
    with tarfile.open(path) as archive:
        [entry] = json.loads(archive.extractfile("kerncap-archive.json").read())["artifacts"]
    change_index(path, artifacts=[entry | changes])


@pytest.mark.parametrize("changes", [{"kind": "validation"}, {"parents": ["1" * 64]}])
def test_a_list_that_says_other_than_its_manifests_is_refused(archive, other, changes):
    change_listed(archive, **changes)
    with pytest.raises(DigestMismatch, match=r"its list and the manifest [0-9a-f]+ disagree"):
        import_archive(other, archive)
    assert nothing_came(other)


@pytest.mark.parametrize(
    "payload", [b'{"kind": "capture"}\n', b'{"kind":"capt\\u0075re"}\n', b"[]\n", b"no JSON", b"[" * 99999]
)
def test_a_manifest_that_is_not_canonical_is_not_imported(store, other, tmp_path, payload):
    with store.begin_transaction() as transaction:
        digest = transaction.put_bytes(payload)
        transaction.publish_listed([(digest, make_list_entry("capture", [], 1))])
    export(store, [digest], tmp_path / "a.tar")
    with pytest.raises(DigestMismatch, match=r"its list and the manifest [0-9a-f]+ disagree"):
        import_archive(other, tmp_path / "a.tar")
    assert nothing_came(other)


@pytest.mark.parametrize(
    "payload", [b'{"kind": "profile"}\n', b'{"kind":"pro\\u0066ile"}\n', b"[]\n", b"no JSON", b"[" * 99999]
)
def test_a_parent_on_no_list_must_be_canonical_too(store, other, tmp_path, payload):
    with store.begin_transaction() as transaction:
        parent = transaction.put_bytes(payload)
        child = transaction.publish(manifest("capture", parent=f"manifest:{parent}"), "capture")
    export(store, [child], tmp_path / "a.tar")
    with pytest.raises(DigestMismatch, match=f"{parent.short}, which its artifacts refer to"):
        import_archive(other, tmp_path / "a.tar")
    assert nothing_came(other)


def test_an_artifact_whose_line_is_damaged_can_be_exported_and_imported(store, other, tmp_path):
    artifact, _ = publish_memory(store, random_bytes(10))
    (store.root / "artifacts" / artifact).write_bytes(b"damaged")
    export(store, [artifact], tmp_path / "a.tar")
    assert import_archive(other, tmp_path / "a.tar") == [artifact]
    assert [entry.kind for entry in other.list_artifacts()] == ["capture"]
