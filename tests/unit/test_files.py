"""Files and folders put into a store and taken out: hostile lists, deep folders, the store itself."""

from __future__ import annotations

import hashlib
import os

import pytest

from kerncap_stages.digest import FileRef, MemoryRef
from kerncap_stages.errors import DigestMismatch, UsageError
from kerncap_stages.manifests.files import Files, StoredFile
from kerncap_stages.store import files
from kerncap_stages.store.check import check_store
from kerncap_stages.store.usage import measure_usage


def one_file(content, size_bytes):
    stored = StoredFile(path="file", content=content, size_bytes=size_bytes)
    return Files(made_by="test", name="file", is_folder=False, files=(stored,))


def test_zeros_beyond_the_size_are_never_written(store, tmp_path, monkeypatch):
    with store.begin_transaction() as transaction:
        writer = transaction.open_memory_writer(1 << 36)
        writer.append_zeros(1 << 36)
        zeros = writer.finish()
        bomb = transaction.put_bytes(bytes(64 << 20))
        transaction.publish_objects()
    monkeypatch.setattr(files, "write_content", lambda *_: pytest.fail("something was written"))
    for content in (MemoryRef.to(zeros), FileRef.to(bomb)):
        with pytest.raises(DigestMismatch, match="manifest says 100"):
            files.get_files(store, one_file(content, 100), tmp_path / "copy")
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


@pytest.mark.parametrize("inside", [".", "..", "link"])
def test_a_folder_that_holds_the_store_is_refused(store, tmp_path, inside):
    (tmp_path / "link").symlink_to(tmp_path)
    folder = store.root / inside if inside != "link" else tmp_path / "link"
    with pytest.raises(UsageError, match="contains the store"):
        files.put_path(store, folder)
    assert store.list_artifacts() == []
    assert measure_usage(store).objects == 0


def test_a_folder_deeper_than_the_stack_comes_back(store, tmp_path):
    depth = 1500
    top = tmp_path / "deep"
    top.mkdir()
    here = os.open(top, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=here)
        here, above = os.open("d", os.O_RDONLY, dir_fd=here), here
        os.close(above)
    os.mkdir("empty", dir_fd=here)
    with os.fdopen(os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=here), "wb") as file:
        file.write(b"deep down")
    os.close(here)
    digest, manifest = files.put_path(store, top)
    assert manifest.files[0].path == "d/" * depth + "file"
    assert manifest.empty_folders == ("d/" * depth + "empty",)
    assert manifest.files[0].content == FileRef(f"file:{hashlib.sha256(b'deep down').hexdigest()}")
    assert check_store(store).ok
    files.get_files(store, manifest, tmp_path / "copy")
    assert (tmp_path / "copy" / manifest.files[0].path).read_bytes() == b"deep down"
    assert (tmp_path / "copy" / manifest.empty_folders[0]).is_dir()
    assert digest in {entry.digest for entry in store.list_artifacts()}
