"""Contents written out: zeros as holes, what cannot fit is refused first, memory is bounded."""

from __future__ import annotations

import contextlib
import os
import resource
import types

import pytest
import stores

from kerncap_stages.digest import FileRef, MemoryRef
from kerncap_stages.errors import DigestMismatch, Refused, UsageError
from kerncap_stages.manifests.files import Files, StoredFile
from kerncap_stages.store import Store
from kerncap_stages.store.contents import print_content
from kerncap_stages.store.files import get_files

MIB = 1 << 20
TIB = 1 << 40
SPARSE = 2 << 30  # no more: were they written, they would fill a disk


def planted(store, chunk_bytes, chunks):
    """A chunk list as another writer may have made it; ``chunks`` is its text."""
    count = chunks.count(",") + 1
    list_ = (
        f'{{"chunk_size_bytes":{chunk_bytes},"chunks":[{chunks}],"kind":"memory","schema_version":1,'
        f'"size_bytes":{chunk_bytes * count}}}\n'
    )
    with store.begin_transaction() as transaction:
        digest = transaction.put_bytes(list_.encode())
        transaction.publish_objects()
    return MemoryRef.to(digest), chunk_bytes * count


def put_chunk(store):
    with store.begin_transaction() as transaction:
        chunk = transaction.put_bytes(stores.random_bytes(MIB))
        transaction.publish_objects()
    return chunk


def one_file(content, size_bytes):
    stored = StoredFile(path="file", content=content, size_bytes=size_bytes)
    return Files(made_by="test", name="file", is_folder=False, files=(stored,))


@pytest.fixture
def sparse(store):
    """One chunk in the middle of 2 GiB of zeros."""
    with store.begin_transaction() as transaction:
        writer = transaction.open_memory_writer(SPARSE)
        writer.append_zeros(SPARSE // 2)
        writer.append(stores.random_bytes(MIB))
        writer.append_zeros(SPARSE // 2 - MIB)
        digest = writer.finish()
        transaction.publish_objects()
    return MemoryRef.to(digest)


def assert_sparse(path, begin=0):
    facts = path.stat()
    assert facts.st_size == begin + SPARSE
    assert facts.st_blocks * 512 < 4 * MIB
    with path.open("rb") as file:
        file.seek(begin + SPARSE // 2)
        assert file.read(MIB) == stores.random_bytes(MIB).tobytes()
        assert file.read(MIB) == bytes(MIB)


def test_zeros_of_a_file_become_holes(store, tmp_path, sparse):
    get_files(store, one_file(sparse, SPARSE), tmp_path / "copy")
    assert_sparse(tmp_path / "copy")


def test_zeros_that_are_printed_into_a_file_become_holes(store, tmp_path, sparse):
    with (tmp_path / "copy").open("wb", buffering=0) as file:
        file.write(b"before")
        print_content(store, sparse, file.fileno())
    assert_sparse(tmp_path / "copy", begin=6)
    with (tmp_path / "copy").open("rb") as file:
        assert file.read(7) == b"before\0"


@pytest.mark.parametrize("how", ["appended", "overwritten"])
def test_zeros_are_written_where_a_hole_would_not_be_one(store, tmp_path, how):
    reference, size = planted(store, 3 * MIB // 2, "null,null")
    (tmp_path / "file").write_bytes(b"x" * 2 * size)
    flags = os.O_WRONLY | (os.O_APPEND if how == "appended" else 0)
    fd = os.open(tmp_path / "file", flags)
    print_content(store, reference, fd)
    os.close(fd)
    old = b"x" * 2 * size
    expected = old + bytes(size) if how == "appended" else bytes(size) + old[size:]
    assert (tmp_path / "file").read_bytes() == expected


def test_a_file_that_is_half_written_is_not_as_long_as_a_whole_one(store, tmp_path, monkeypatch):
    """Who is killed cannot shorten it again."""
    reference, size = planted(store, MIB, f'null,"{put_chunk(store)}",null')
    lengths = []
    get = Store.get
    with (tmp_path / "file").open("wb") as file:
        monkeypatch.setattr(
            Store,
            "get",
            lambda self, digest: lengths.append(os.fstat(file.fileno()).st_size) or get(self, digest),
        )
        print_content(store, reference, file.fileno())
    assert lengths == [0]
    assert (tmp_path / "file").stat().st_size == size == 3 * MIB


def test_damage_behind_a_hole_ends_the_file_before_it(store, tmp_path):
    chunk = put_chunk(store)
    reference, _ = planted(store, MIB, f'null,"{chunk}",null')
    stores.object_file(store, chunk).chmod(0o600)
    stores.object_file(store, chunk).write_bytes(b"damaged")
    with (tmp_path / "file").open("wb") as file, pytest.raises(DigestMismatch, match=chunk):
        print_content(store, reference, file.fileno())
    assert (tmp_path / "file").read_bytes() == bytes(MIB)


@pytest.mark.parametrize("payload", [b"", b"short", b"x" * 2 * MIB])
def test_a_chunk_of_another_size_is_refused(store, tmp_path, payload):
    with store.begin_transaction() as transaction:
        chunk = transaction.put_bytes(payload)
        transaction.publish_objects()
    reference, size = planted(store, MIB, f'null,"{chunk}",null')
    with pytest.raises(DigestMismatch, match=chunk.short):
        get_files(store, one_file(reference, size), tmp_path / "copy")
    with (tmp_path / "printed").open("wb") as file, pytest.raises(DigestMismatch, match=chunk.short):
        print_content(store, reference, file.fileno())
    assert (tmp_path / "printed").read_bytes() == bytes(MIB)
    assert not (tmp_path / "copy").exists()


@contextlib.contextmanager
def no_file_above(size_bytes):
    """A file system whose files are no longer than that."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_petabytes_that_the_file_system_cannot_hold_are_refused(store, tmp_path):
    reference, size = planted(store, 1 << 30, ",".join(["null"] * 3_000_000))
    assert size > 2 * 1024 * TIB
    with no_file_above(TIB), pytest.raises(Refused, match=f"cannot store a file of {size:,} bytes") as raised:
        get_files(store, one_file(reference, size), tmp_path / "copy")
    assert "another" in raised.value.hint
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def test_more_bytes_than_the_disk_has_room_for_are_refused_before_any_is_written(
    store, tmp_path, monkeypatch
):
    with store.begin_transaction() as transaction:
        chunk = transaction.put_bytes(b"x" * (64 * MIB))
        transaction.publish_objects()
    reference, size = planted(store, 64 * MIB, ",".join([f'"{chunk}"'] * 500_000))
    monkeypatch.setattr(
        "kerncap_stages.store.files.write_content", lambda *_: pytest.fail("something was written")
    )
    message = rf"has [0-9,]+ bytes free, but {size:,} bytes are needed up to and including file"
    with pytest.raises(Refused, match=message):
        get_files(store, one_file(reference, size), tmp_path / "copy")
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def test_room_is_asked_of_all_files_together(store, tmp_path, monkeypatch):
    """Each of them would fit. The room is made up: that of a real disk changes while others write to it."""
    file = FileRef.to(put_chunk(store))
    files = tuple(StoredFile(path=f"{number}", content=file, size_bytes=MIB) for number in range(5))
    manifest = Files(made_by="test", name="all", is_folder=True, files=files)
    room = types.SimpleNamespace(f_blocks=1 << 20, f_bfree=7, f_frsize=MIB // 2)
    monkeypatch.setattr(os, "statvfs", lambda _place: room)
    message = "has 3,670,016 bytes free, but 4,194,304 bytes are needed up to and including 3"
    with pytest.raises(Refused, match=message):
        get_files(store, manifest, tmp_path / "copy")
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def test_a_list_of_too_many_chunks_is_no_list(store):
    reference, _ = planted(store, 1 << 30, ",".join(["null"] * 4_000_001))
    for read in (store.read_memory_size, store.read_memory, store.read_chunk_list):
        with pytest.raises(DigestMismatch, match="more than 4,000,000 chunks"):
            read(reference.digest)


def test_no_list_of_too_many_chunks_is_written(store):
    with store.begin_transaction() as transaction:
        transaction.open_memory_writer(4_000_000 * MIB).append(b"x")
        for append in ("append", "append_zeros"):
            writer = transaction.open_memory_writer(4_000_000 * MIB + 1)
            with pytest.raises(UsageError, match="the most that one piece may have is 4194304000000"):
                getattr(writer, append)(b"x" if append == "append" else MIB)


def test_memory_that_the_machine_has_not_is_refused(store):
    reference, size = planted(store, 1 << 30, ",".join(["null"] * 3_000_000))
    with pytest.raises(Refused, match=f"{size:,} bytes, more than this machine has"):
        store.read_memory(reference.digest)
