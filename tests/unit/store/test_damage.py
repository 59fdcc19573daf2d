"""Damage is found, named with the next step, and never used."""

from __future__ import annotations

import hashlib
import os
import struct

import pytest
import zstandard
from stores import manifest, object_file, publish_memory, random_bytes

from kerncap_stages._native import CHUNK_SIZE_BYTES
from kerncap_stages.digest import Digest
from kerncap_stages.errors import (
    ArtifactError,
    ArtifactNotFound,
    DigestMismatch,
    ManifestUnreadable,
    Refused,
    StoreError,
    UsageError,
)
from kerncap_stages.store import Store
from kerncap_stages.store.artifacts import make_list_entry
from kerncap_stages.store.check import check_store
from kerncap_stages.store.transaction import Transaction

EMPTY = hashlib.sha256(b"").hexdigest()


def replace(path, content):
    path.chmod(0o600)
    path.write_bytes(content)


def plant(store, frame, payload):
    """Put bytes where the object of a payload should lie; returns its digest."""
    digest = Digest(hashlib.sha256(payload).hexdigest())
    path = object_file(store, digest)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(frame)
    return digest


def truncated(frame):
    return frame[: len(frame) // 2]


def bit_flipped(frame):
    middle = len(frame) // 2
    return frame[:middle] + bytes([frame[middle] ^ 0x10]) + frame[middle + 1 :]


def declares_more(frame):
    return frame[:6] + struct.pack("<Q", 1 << 50) + frame[14:]


DAMAGES = {
    "truncated": truncated,
    "bit-flipped": bit_flipped,
    "declares more": declares_more,
    "bytes behind the end": lambda frame: frame + b"x",
    "a second frame": lambda frame: frame + frame,
    "empty": lambda _: b"",
    "no frame": lambda _: b"not a zstd frame at all",
    "skippable frame": lambda _: struct.pack("<II", 0x184D2A50, 4) + b"1234",
    "another payload": lambda _: zstandard.ZstdCompressor().compress(b"another payload"),
    "no content size": lambda _: zstandard.ZstdCompressor(write_content_size=False).compress(b"x"),
    "a zstd bomb": lambda _: zstandard.ZstdCompressor().compress(bytes(200 << 20)),
}


@pytest.fixture(params=DAMAGES)
def damage(request):
    return DAMAGES[request.param]


def test_get_refuses_a_damaged_object(store, damage):
    payload = random_bytes(100_000).tobytes()
    with store.begin_transaction() as transaction:
        digest = transaction.put_bytes(payload)
        transaction.publish(manifest(file=f"file:{digest}"), "capture")
    frame = object_file(store, digest).read_bytes()
    assert frame[4:6] == b"\xc0\x50"  # raw blocks
    replace(object_file(store, digest), damage(frame))
    with pytest.raises(DigestMismatch, match=digest) as raised:
        store.get(digest)
    assert "kc-store check --repair" in raised.value.hint


def test_read_memory_refuses_a_damaged_chunk(store, damage):
    memory = random_bytes(3 * CHUNK_SIZE_BYTES)
    _, digest = publish_memory(store, memory)
    chunk = hashlib.sha256(memory[:CHUNK_SIZE_BYTES]).hexdigest()
    replace(object_file(store, chunk), damage(object_file(store, chunk).read_bytes()))
    with pytest.raises(DigestMismatch, match=chunk):
        store.read_memory(digest)


def test_check_names_the_object_and_the_artifacts_that_need_it(store, damage):
    memory = random_bytes(2 * CHUNK_SIZE_BYTES)
    artifact, _ = publish_memory(store, memory)
    publish_memory(store, random_bytes(CHUNK_SIZE_BYTES, seed=1))
    chunk = hashlib.sha256(memory[:CHUNK_SIZE_BYTES]).hexdigest()
    replace(object_file(store, chunk), damage(object_file(store, chunk).read_bytes()))
    (fault,) = check_store(store).faults
    assert (fault.kind, fault.what, fault.artifacts) == ("damaged", chunk, (artifact,))


def test_repair_sets_damage_aside_and_a_second_put_mends_it(store, damage):
    memory = random_bytes(2 * CHUNK_SIZE_BYTES)
    artifact, digest = publish_memory(store, memory)
    chunk = hashlib.sha256(memory[:CHUNK_SIZE_BYTES]).hexdigest()
    replace(object_file(store, chunk), damage(object_file(store, chunk).read_bytes()))
    report = check_store(store, repair=True)
    assert report.set_aside == (chunk,)
    (fault,) = check_store(store).faults
    assert (fault.kind, fault.artifacts) == ("missing", (artifact,))
    publish_memory(store, memory)
    assert check_store(store).ok
    assert store.read_memory(digest).tobytes() == memory.tobytes()


@pytest.mark.parametrize("of", ["chunk", "list"])
@pytest.mark.parametrize("moment", ["before it publishes", "while it publishes"])
def test_nothing_is_published_that_relies_on_what_a_repair_set_aside(store, monkeypatch, of, moment):
    """A put finds an object there and writes nothing; then a check finds out that it is damaged."""
    memory = random_bytes(2 * CHUNK_SIZE_BYTES)
    artifact, digest = publish_memory(store, memory)
    bad = {"chunk": hashlib.sha256(memory[:CHUNK_SIZE_BYTES]).hexdigest(), "list": digest}[of]
    frame = object_file(store, bad).read_bytes()

    def repair():
        replace(object_file(store, bad), bit_flipped(frame))
        assert check_store(Store.open(store.root), repair=True).set_aside == (bad,)

    require = Transaction.require_closure

    def require_then_repair(self, manifests):
        closure = require(self, manifests)
        repair()
        return closure

    with store.begin_transaction() as transaction:
        assert transaction.put_memory(memory) == digest
        assert transaction.get_counts()["new_bytes"] == 0
        if moment == "before it publishes":
            repair()
        else:
            monkeypatch.setattr(Transaction, "require_closure", require_then_repair)
        with pytest.raises(ArtifactError, match=f"cannot publish.*{bad}") as raised:
            transaction.publish(manifest(memory=f"memory:{digest}", n=2), "capture")
    monkeypatch.undo()
    assert "again" in raised.value.hint
    assert [entry.digest for entry in store.list_artifacts()] == [artifact]
    publish_memory(store, memory, n=2)
    assert check_store(store).ok
    assert store.read_memory(digest).tobytes() == memory.tobytes()


@pytest.mark.parametrize("of", ["chunk", "list", "manifest"])
def test_a_missing_object_is_named(store, of):
    memory = random_bytes(CHUNK_SIZE_BYTES)
    artifact, digest = publish_memory(store, memory)
    lost = {"chunk": hashlib.sha256(memory).hexdigest(), "list": digest, "manifest": artifact}[of]
    object_file(store, lost).unlink()
    (fault,) = check_store(store).faults
    assert (fault.kind, fault.what, fault.artifacts) == ("missing", lost, (artifact,))
    if of != "manifest":
        with pytest.raises(ArtifactNotFound, match=lost):
            store.read_memory(digest)


def test_a_renamed_object_is_damage_under_its_new_name(store):
    memory = random_bytes(CHUNK_SIZE_BYTES)
    publish_memory(store, memory)
    chunk = hashlib.sha256(memory).hexdigest()
    wrong = chunk[:-1] + ("0" if chunk[-1] != "0" else "1")
    object_file(store, chunk).rename(object_file(store, wrong))
    assert {(fault.kind, fault.what) for fault in check_store(store).faults} == {
        ("missing", chunk),
        ("damaged", wrong),
    }


def test_a_stray_file_is_named(store):
    (store.root / "objects" / "ab").mkdir()
    (store.root / "objects" / "ab" / "notes.txt").write_text("x")
    (fault,) = check_store(store).faults
    assert (fault.kind, fault.what) == ("stray", "objects/ab/notes.txt")


STRAY_NAMES = {
    ".mine.swp": "no name is spelled like this",
    "mine~": "no name is spelled like this",
    "two words": "no name is spelled like this",
    "\x1b[31m": "no name is spelled like this",
    "README": "does not hold a digest",
    "link": "a link",
    "folder": "not a file",
    "pipe": "not a file",
}


def test_odd_files_among_the_names_are_strays_and_no_names(store):
    """Such as editors, backups and file systems leave behind, with a digest in them or without."""
    artifact, _ = publish_memory(store, random_bytes(10))
    store.name("mine", artifact)
    folder = store.root / "names"
    for name in (".mine.swp", "mine~", "two words", "\x1b[31m"):
        (folder / name).write_text(f"{artifact}\n")
    (folder / "README").write_text("What the names mean.\n")
    (folder / "link").symlink_to("mine")
    (folder / "folder").mkdir()
    os.mkfifo(folder / "pipe")
    (store.root / "artifacts" / "notes.txt").touch()
    assert store.names() == {"mine": artifact}
    assert [entry.names for entry in store.list_artifacts()] == [("mine",)]
    for name in STRAY_NAMES:
        with pytest.raises(ArtifactNotFound):
            store.resolve(name)
    faults = {fault.what: fault for fault in check_store(store).faults}
    assert {fault.kind for fault in faults.values()} == {"stray"}
    assert faults.keys() == {"artifacts/notes.txt", *(f"names/{name}" for name in STRAY_NAMES)}
    for name, reason in STRAY_NAMES.items():
        assert reason in faults[f"names/{name}"].message


def test_a_link_in_place_of_an_object_is_not_followed(store, tmp_path):
    digest = plant(store, b"", b"secret")
    (tmp_path / "elsewhere").write_bytes(zstandard.ZstdCompressor().compress(b"secret"))
    object_file(store, digest).unlink()
    object_file(store, digest).symlink_to(tmp_path / "elsewhere")
    assert not store.has(digest)
    with pytest.raises(StoreError):
        store.get(digest)


def test_a_sample_reads_some_objects(store):
    for seed in range(20):
        publish_memory(store, random_bytes(10, seed), seed=seed)
    report = check_store(store, sample=0.1)
    assert (report.objects, report.checked_objects) == (60, 6)


@pytest.mark.parametrize(
    "payload",
    [
        b"{}",
        b"nonsense",
        b'{"chunk_size_bytes":1048576,"chunks":[null],"kind":"memory","schema_version":1,"size_bytes":0}\n',
        b'{"chunk_size_bytes":0,"chunks":[],"kind":"memory","schema_version":1,"size_bytes":0}\n',
        b'{"chunk_size_bytes":1048576,"chunks":[],"kind":"memory","schema_version":2,"size_bytes":0}\n',
        b'{"chunk_size_bytes":1048576,"chunks":["../x"],"kind":"memory","schema_version":1,"size_bytes":5}\n',
        b'{"chunk_size_bytes": 1048576,"chunks":[],"kind":"memory","schema_version":1,"size_bytes":0}\n',
        b'{"chunk_size_bytes":1048576,"chunks":[],"kind":"memory","schema_version":1,"size_bytes":0}\n\n',
        b'{"chunk_size_bytes":1048576,"chunks":[],"kind":"memory","schema_version":1,'
        b'"size_bytes":99999999999999999999999}\n',
    ],
)
def test_a_malformed_chunk_list_is_refused(store, payload):
    digest = plant(store, zstandard.ZstdCompressor().compress(payload), payload)
    for read in (store.read_memory, store.read_memory_size, store.read_chunk_list):
        with pytest.raises(DigestMismatch, match=digest) as raised:
            read(digest)
        # Its bytes are as they were written: a repair would find nothing to mend.
        assert "`kc-store check --repair` cannot mend it" in raised.value.hint
        assert "kc-store rm" in raised.value.hint
    of_it = manifest(memory=f"memory:{digest}")
    artifact = plant(store, zstandard.ZstdCompressor().compress(of_it), of_it)
    (store.root / "artifacts" / artifact).write_bytes(make_list_entry("capture", [], 1))
    (fault,) = check_store(store, repair=True).faults
    assert (fault.kind, fault.what, fault.artifacts) == ("malformed", digest, (artifact,))


@pytest.mark.parametrize("short", [b"short", b""], ids=["short", "empty"])
def test_a_list_whose_chunks_have_another_size_is_refused(store, short):
    chunk = plant(store, zstandard.ZstdCompressor().compress(short), short)
    payload = (
        f'{{"chunk_size_bytes":1048576,"chunks":["{chunk}"],"kind":"memory","schema_version":1,'
        '"size_bytes":1048576}\n'
    ).encode()
    digest = plant(store, zstandard.ZstdCompressor().compress(payload), payload)
    with pytest.raises(DigestMismatch, match=f"{chunk}: has {len(short)} bytes, .* says 1048576") as raised:
        store.read_memory(digest)
    assert "`kc-store check --repair` cannot mend it" in raised.value.hint
    of_it = manifest(memory=f"memory:{digest}")
    artifact = plant(store, zstandard.ZstdCompressor().compress(of_it), of_it)
    (store.root / "artifacts" / artifact).write_bytes(make_list_entry("capture", [], 1))
    publish_memory(store, random_bytes(CHUNK_SIZE_BYTES + 5))
    (fault,) = check_store(store).faults
    assert (fault.kind, fault.what, fault.artifacts) == ("malformed", digest, (artifact,))
    assert f"has {len(short)} bytes" in fault.message


@pytest.mark.parametrize(
    "files",
    [
        [{"content": f"file:{'0' * 64}", "executable": False, "path": "../x", "size_bytes": 0}],
        [{"content": f"memory:{'0' * 64}", "executable": False, "path": "x", "size_bytes": -1}],
        "none",
    ],
    ids=["outside", "negative", "no list"],
)
def test_a_malformed_list_of_files_is_named_and_not_published(store, files):
    listed = manifest("files", files=files, parents=[]).replace(b"0" * 64, EMPTY.encode())
    plant(store, zstandard.ZstdCompressor().compress(b""), b"")
    with store.begin_transaction() as transaction, pytest.raises(ManifestUnreadable):
        transaction.publish(listed, "files")
    artifact = plant(store, zstandard.ZstdCompressor().compress(listed), listed)
    (store.root / "artifacts" / artifact).write_bytes(make_list_entry("files", [], 1))
    fault = next(fault for fault in check_store(store).faults if fault.what == artifact)
    assert (fault.kind, fault.artifacts) == ("malformed", (artifact,))


def test_a_store_of_another_version_is_refused(store):
    (store.root / "format").write_text("kerncap-store 2\n")
    with pytest.raises(Refused, match="do not know"):
        Store.open(store.root)


def test_a_folder_of_something_else_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(UsageError, match="files that are not a store's"):
        Store.open(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
