"""kc-store put, get, cat, export and import: what goes into a store and comes out of it."""

from __future__ import annotations

import hashlib
import json
import os
import random
import socket

import executables
import pytest
from store_commands import damage, flip, put, tree_of

from kerncap_stages.digest import Digest, MemoryRef
from kerncap_stages.manifests import load_as
from kerncap_stages.manifests.files import Files
from kerncap_stages.store.check import check_store
from kerncap_stages.store.usage import measure_usage


def test_folder_comes_back_as_it_was(kc, folder, tmp_path):
    digest = put(kc, folder)
    done = kc("get", digest, tmp_path / "copy")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert tree_of(tmp_path / "copy") == tree_of(folder)


def test_folder_that_is_put_again_is_the_same_artifact(kc, folder):
    assert put(kc, folder) == put(kc, f"{folder}/") == put(kc, folder / "sub" / "..")


def test_file_comes_back_under_its_own_name(kc, folder, tmp_path):
    digest = put(kc, folder / "sub" / "run.sh")
    (tmp_path / "here").mkdir()
    assert kc("get", digest, cwd=tmp_path / "here").returncode == 0
    assert tree_of(tmp_path / "here") == {"run.sh": tree_of(folder)["sub/run.sh"]}


def test_large_file_is_kept_in_chunks_that_are_shared(kc, store, folder):
    digest = put(kc, folder)
    before = measure_usage(store)
    content = (folder / "sub" / "deep" / "large.bin").read_bytes()
    (folder / "sub" / "deep" / "large.bin").write_bytes(content[:-1] + b"x")
    manifest = load_as(store, Digest(put(kc, folder)), Files)
    kinds = {file.path: type(file.content) for file in manifest.files}
    assert kinds["sub/deep/large.bin"] is MemoryRef
    grown = measure_usage(store).stored_bytes - before.stored_bytes
    assert grown < 5 << 20
    assert kc("du", digest).returncode == 0


@pytest.mark.parametrize("name", ["text.txt", "sub/deep/large.bin", "sub/zeros.bin", "empty"])
def test_cat_writes_one_file(kc, folder, name):
    digest = put(kc, folder)
    done = kc("cat", digest, name, text=False)
    assert done.returncode == 0
    assert done.stdout == (folder / name).read_bytes()


def test_cat_writes_references_and_manifests(kc, store, folder):
    digest = put(kc, folder)
    payload = kc("cat", digest, text=False).stdout
    assert hashlib.sha256(payload).hexdigest() == digest
    large = next(file for file in json.loads(payload)["files"] if file["path"].endswith("large.bin"))
    done = kc("cat", large["content"], text=False)
    assert done.stdout == (folder / "sub" / "deep" / "large.bin").read_bytes()
    assert store.resolve(digest) == digest


@pytest.mark.parametrize("what", ["memory:12", "file:" + "g" * 64, "memory:" + "0" * 64, "nobody"])
def test_cat_of_what_is_not_there_writes_nothing(kc, folder, what):
    put(kc, folder)
    done = kc("cat", what)
    assert done.returncode in (2, 3)
    assert done.stdout == ""
    assert done.stderr.startswith("kc-store: error: ")


def test_file_that_is_not_in_the_folder_is_named(kc, folder):
    done = kc("cat", put(kc, folder), "../text.txt")
    assert done.returncode == 2
    assert "holds no file ../text.txt" in done.stderr


def test_nothing_is_overwritten(kc, folder, tmp_path):
    digest = put(kc, folder)
    (tmp_path / "copy").symlink_to("nowhere")
    done = kc("get", digest, tmp_path / "copy")
    assert done.returncode == 2
    assert "exists" in done.stderr
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda top: (top / "a\nb").touch(), "a name that cannot be stored"),
        (lambda top: (top / os.fsdecode(b"caf\xe9")).touch(), "a name that cannot be stored"),
        (lambda top: (top / "out").symlink_to("../.."), "leads out of the folder"),
        (lambda top: (top / "absolute").symlink_to("/etc/passwd"), "leads out of the folder"),
        (lambda top: os.mkfifo(top / "pipe"), "not a regular file"),
        (
            lambda top: socket.socket(socket.AF_UNIX).bind(str(top / "s")),
            "No such device",
        ),
    ],
    ids=["line-feed", "not-utf8", "link-out", "link-absolute", "pipe", "socket"],
)
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_what_cannot_be_kept_is_refused_by_name(kc, store, folder, make, message, monkeypatch):
    monkeypatch.chdir(folder)  # a socket's path must be short
    make(folder.relative_to(folder))
    done = kc("put", folder)
    assert done.returncode in (4, 6)
    assert store.list_artifacts() == []
    assert any(part in done.stderr for part in message.split("|"))


def test_path_that_does_not_exist_is_wrong_usage(kc, tmp_path):
    (tmp_path / "file").touch()
    for place in ("nowhere", "file/below"):
        done = kc("put", tmp_path / place)
        assert done.returncode == 2
        assert f"cannot read {tmp_path / place}: " in done.stderr
    done = kc("get", put(kc, tmp_path / "file"), tmp_path / "nowhere" / "copy")
    assert done.returncode == 2
    assert f"{tmp_path / 'nowhere'} is not a folder\n  next: " in done.stderr


def test_file_that_cannot_be_read_is_named(kc, store):
    done = kc("put", "/proc/self/mem")
    assert done.returncode in (3, 4)
    assert "/proc/self/mem" in done.stderr
    assert store.list_artifacts() == []


def test_cat_writes_no_byte_of_a_damaged_chunk_or_file(kc, store, folder):
    digest = Digest(put(kc, folder))
    files = {file.path: file.content.digest for file in load_as(store, digest, Files).files}
    chunk = json.loads(store.get(files["sub/deep/large.bin"]))["chunks"][1]
    damage(store, chunk, flip)
    content = (folder / "sub" / "deep" / "large.bin").read_bytes()
    assert kc("cat", digest, "sub/deep/large.bin", text=False).stdout == content[: 1 << 20]
    with store.begin_transaction() as transaction:
        large = transaction.put_bytes(random.Random(2).randbytes(9 << 20))
        transaction.publish_objects()
    damage(store, large, flip)
    done = kc("cat", f"file:{large}", text=False)
    assert (done.returncode, done.stdout) == (3, b"")


def test_manifest_that_would_leave_the_folder_is_refused(kc, store, folder, tmp_path):
    content = json.loads(store.get(Digest(put(kc, folder))))
    content["files"][0]["path"] = "../../escaped"
    payload = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False) + "\n"
    digest = executables.publish(store, payload.encode())
    (tmp_path / "a" / "b").mkdir(parents=True)
    done = kc("get", digest, "copy", cwd=tmp_path / "a" / "b")
    assert done.returncode == 3
    assert digest[:12] in done.stderr
    assert "stays inside its folder" in done.stderr
    assert list((tmp_path / "a").rglob("*")) == [tmp_path / "a" / "b"]


def test_sizes_that_a_manifest_lies_about_are_refused(kc, store, folder, tmp_path):
    content = json.loads(store.get(Digest(put(kc, folder / "text.txt"))))
    content["files"][0]["size_bytes"] = 3
    payload = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False) + "\n"
    digest = executables.publish(store, payload.encode())
    done = kc("get", digest, tmp_path / "copy")
    assert done.returncode == 3
    assert not (tmp_path / "copy").exists()


def test_archive_carries_artifacts_to_another_store(kc, folder, tmp_path, store):
    digest = put(kc, folder)
    assert kc("export", digest, "--output", tmp_path / "it.kcar").returncode == 0
    other = tmp_path / "other"
    done = executables.run("kc-store", "import", tmp_path / "it.kcar", store=other)
    assert done.stdout == digest + "\n"
    done = executables.run("kc-store", "get", digest, tmp_path / "copy", store=other)
    assert done.returncode == 0
    assert tree_of(tmp_path / "copy") == tree_of(folder)
    assert kc("export", digest, "--output", tmp_path / "it.kcar").returncode == 2  # it exists
    assert store.resolve("@files") == digest


def test_damaged_archive_adds_nothing(kc, folder, tmp_path):
    kc("export", put(kc, folder), "--output", tmp_path / "it.kcar")
    content = bytearray((tmp_path / "it.kcar").read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / "bad.kcar").write_bytes(content)
    other = tmp_path / "other"
    done = executables.run("kc-store", "import", tmp_path / "bad.kcar", store=other)
    assert done.returncode == 3
    assert done.stdout == ""
    assert executables.run("kc-store", "ls", "-q", store=other).stdout == ""


def test_export_of_damage_writes_nothing(kc, store, folder, tmp_path):
    digest = put(kc, folder)
    chunk = max((store.root / "objects").glob("*/*"), key=lambda path: path.stat().st_size).name
    damage(store, chunk, flip)
    done = kc("export", digest, "-o", tmp_path / "archive")
    assert done.returncode == 3
    assert chunk in done.stderr
    assert "check --repair" in done.stderr
    assert not list(tmp_path.glob("*archive*"))


@pytest.mark.parametrize("what", ["nowhere", "pipe", "folder"])
def test_archive_that_is_no_file_is_wrong_usage(kc, tmp_path, what):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    done = kc("import", tmp_path / what, timeout=20)
    assert done.returncode == 2
    assert str(tmp_path / what) in done.stderr


def test_cat_to_a_standard_output_that_is_closed_is_wrong_usage(kc, store, folder):
    put(kc, folder / "text.txt")
    done = kc("cat", "@", preexec_fn=lambda: os.close(1))
    assert done.returncode == 2
    assert "standard output is closed\n  next: " in done.stderr
    assert check_store(store).ok


def test_folder_that_is_too_deep_to_be_read_is_named_with_the_next_step(kc, store, tmp_path):
    top = tmp_path / "deep"
    top.mkdir()
    here = os.open(top, os.O_DIRECTORY)
    for _ in range(20):  # longer in all than a path may be
        os.mkdir("d" * 250, dir_fd=here)
        here, above = os.open("d" * 250, os.O_DIRECTORY, dir_fd=here), here
        os.close(above)
    os.close(here)
    done = kc("put", top)
    assert done.returncode == 4
    assert f"cannot read {top}/ddd" in done.stderr
    assert "File name too long\n  next: " in done.stderr
    assert store.list_artifacts() == []
