"""Archives that are damaged, malformed or hostile: nothing of them is imported."""

from __future__ import annotations

import json
import tarfile

import pytest
from archives import change_index, rewrite
from stores import manifest

from kerncap_stages.errors import ArtifactError, DigestMismatch, Refused
from kerncap_stages.store.archive import export, import_archive
from kerncap_stages.store.artifacts import make_list_entry


def nothing_came(store):
    return store.list_artifacts() == [] and not list((store.root / "objects").glob("*/*"))


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


@pytest.mark.parametrize("header", [{"GNU.sparse.map": "a,b"}, {"GNU.sparse.size": "x"}, {"size": "9" * 15}])
def test_a_malformed_member_is_refused(archive, other, header):
    with tarfile.open(archive, "a", format=tarfile.PAX_FORMAT) as opened:
        member = tarfile.TarInfo(f"objects/ab/ab{'0' * 62}")
        member.pax_headers = header
        opened.addfile(member)
    with pytest.raises(ArtifactError):
        import_archive(other, archive)
    assert nothing_came(other)


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
