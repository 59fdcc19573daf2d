"""kc-store: every command by its executable, on good and on damaged stores."""

from __future__ import annotations

import hashlib
import json
import os
import random
import socket

import executables
import manifest_examples as examples
import pytest
import stores

from kerncap_stages.digest import Digest, MemoryRef
from kerncap_stages.manifests import load_as
from kerncap_stages.manifests.files import Files


@pytest.fixture
def kc(store):
    def run(*arguments, **options):
        return executables.run("kc-store", *arguments, store=store.root, **options)

    return run


@pytest.fixture
def folder(tmp_path):
    """A folder with all that a folder may hold."""
    top = tmp_path / "data"
    (top / "sub" / "deep").mkdir(parents=True)
    (top / "none" / "at all").mkdir(parents=True)
    (top / "empty").touch()
    (top / "text.txt").write_text("text")
    (top / "sub" / "run.sh").write_text("#!/bin/sh\n")
    (top / "sub" / "run.sh").chmod(0o755)
    (top / "sub" / "deep" / "large.bin").write_bytes(random.Random(1).randbytes((9 << 20) + 17))
    (top / "sub" / "zeros.bin").write_bytes(bytes(5 << 20))
    (top / "naïve 核.bin").write_bytes(b"\x00\x01")
    (top / "sub" / "link").symlink_to("../text.txt")
    (top / "sub" / "to nothing").symlink_to("nowhere")
    return top


def tree_of(top):
    """What is in a folder: kind, mode and contents of everything, by its path."""
    found = {}
    for path in sorted(top.rglob("*")):
        name = path.relative_to(top).as_posix()
        if path.is_symlink():
            found[name] = ("link", str(path.readlink()))
        elif path.is_dir():
            found[name] = ("folder",)
        else:
            found[name] = ("file", os.access(path, os.X_OK), hashlib.sha256(path.read_bytes()).hexdigest())
    return found


def put(kc, path):
    done = kc("put", path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1
    return done.stdout.strip()


def damage(store, digest, change):
    file = stores.object_file(store, digest)
    content = bytearray(file.read_bytes())
    file.chmod(0o600)
    change(content)
    file.write_bytes(content)


def flip(content):
    content[len(content) // 2] ^= 1


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
    before = store.usage()
    content = (folder / "sub" / "deep" / "large.bin").read_bytes()
    (folder / "sub" / "deep" / "large.bin").write_bytes(content[:-1] + b"x")
    manifest = load_as(store, Digest(put(kc, folder)), Files)
    kinds = {file.path: type(file.content) for file in manifest.files}
    assert kinds["sub/deep/large.bin"] is MemoryRef
    grown = store.usage().stored_bytes - before.stored_bytes
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
        (lambda top: (top / "a\nb").touch(), "a name that cannot be kept"),
        (lambda top: (top / os.fsdecode(b"caf\xe9")).touch(), "a name that cannot be kept"),
        (lambda top: (top / "out").symlink_to("../.."), "leads out of the folder"),
        (lambda top: (top / "absolute").symlink_to("/etc/passwd"), "leads out of the folder"),
        (lambda top: os.mkfifo(top / "pipe"), "no regular file"),
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
    assert store.artifacts() == []
    assert any(part in done.stderr for part in message.split("|"))


def test_path_that_does_not_exist_is_wrong_usage(kc, tmp_path):
    (tmp_path / "file").touch()
    for place in ("nowhere", "file/below"):
        done = kc("put", tmp_path / place)
        assert done.returncode == 2
        assert f"cannot read {tmp_path / place}: " in done.stderr
    done = kc("get", put(kc, tmp_path / "file"), tmp_path / "nowhere" / "copy")
    assert done.returncode == 2
    assert f"{tmp_path / 'nowhere'} is no folder\n  next: " in done.stderr


def test_list_of_nothing_says_so(kc, store, folder):
    put(kc, folder / "sub" / "deep")
    done = kc("ls", "--kind", "captures")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == f"no artifacts of kind captures in {store.root}\n"
    assert "deep, 1 file\n" in kc("ls").stdout


def test_file_that_cannot_be_read_is_named(kc, store):
    done = kc("put", "/proc/self/mem")
    assert done.returncode in (3, 4)
    assert "/proc/self/mem" in done.stderr
    assert store.artifacts() == []


@pytest.mark.parametrize(
    "change",
    [flip, lambda content: content.clear(), lambda content: content.pop()],
    ids=["bit", "empty", "cut"],
)
def test_check_finds_damage_and_names_what_it_spoils(kc, store, folder, tmp_path, change):
    digest = put(kc, folder)
    other = put(kc, folder / "text.txt")
    memory = next(file for file in load_as(store, Digest(digest), Files).files if file.path == "text.txt")
    assert kc("check").returncode == 0
    large = next(f for f in load_as(store, Digest(digest), Files).files if f.path.endswith("large.bin"))
    chunk = json.loads(store.get(large.content.digest))["chunks"][1]
    damage(store, chunk, change)
    done = kc("check")
    assert done.returncode == 3
    assert chunk[:12] in done.stdout
    assert digest[:12] in done.stdout
    assert other[:12] not in done.stdout
    report = json.loads(kc("check", "--json").stdout)
    assert [(fault["what"], fault["artifacts"]) for fault in report["faults"]] == [(chunk, [digest])]

    done = kc("get", digest, tmp_path / "copy")
    assert done.returncode == 3
    assert chunk[:12] in done.stderr
    assert not (tmp_path / "copy").exists()
    assert not list(tmp_path.glob(".copy*"))
    assert kc("cat", digest, large.path, text=False).returncode == 3
    assert kc("cat", digest, memory.path).stdout == "text"

    assert "`kc-store check --repair`" in done.stderr
    done = kc("check", "--repair")
    assert done.returncode == 3
    assert "1 damaged object set aside" in done.stdout
    assert put(kc, folder) == digest
    assert kc("check").returncode == 0


def test_cat_writes_no_byte_of_a_damaged_chunk_or_file(kc, store, folder):
    digest = Digest(put(kc, folder))
    files = {file.path: file.content.digest for file in load_as(store, digest, Files).files}
    chunk = json.loads(store.get(files["sub/deep/large.bin"]))["chunks"][1]
    damage(store, chunk, flip)
    content = (folder / "sub" / "deep" / "large.bin").read_bytes()
    assert kc("cat", digest, "sub/deep/large.bin", text=False).stdout == content[: 1 << 20]
    with store.transaction() as transaction:
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


def test_list_can_be_restricted_and_piped(kc, store):
    capture = executables.publish(store, examples.capture())
    profile = executables.publish(store, examples.profile())
    assert kc("ls", "--quiet").stdout.split() == [profile, capture]
    assert kc("ls", "--kind", "capture", "-q").stdout.split() == [capture]
    entries = json.loads(kc("ls", "--json").stdout)
    assert [(entry["digest"], entry["kind"]) for entry in entries] == [
        (profile, "profile"),
        (capture, "capture"),
    ]
    shown = kc("ls").stdout
    assert profile[:12] in shown
    assert capture[:12] in shown


def test_name_keeps_an_artifact_until_it_is_taken_away(kc, folder, store):
    digest = put(kc, folder)
    assert kc("name", "the-data", digest[:8]).returncode == 0
    assert kc("prune", "--keep-last", "0").stdout == ""
    assert kc("gc").returncode == 0
    assert kc("check").returncode == 0
    assert store.resolve("the-data") == digest
    assert kc("unname", "the-data").returncode == 0
    assert kc("prune", "--keep-last", "0").stdout == digest + "\n"
    assert kc("unname", "the-data").returncode == 3


@pytest.mark.parametrize(
    "name", ["", "../x", "a/b", "@", "0123abcd", "-x", "a b", "a\n", "x" * 300, "\x1b[31m"]
)
def test_name_that_could_be_something_else_is_refused(kc, folder, name):
    done = kc("name", "--", name, put(kc, folder))
    assert done.returncode == 2
    assert "\x1b" not in done.stderr


def test_removed_artifacts_are_collected_and_the_rest_stays(kc, store, folder):
    kept, gone = put(kc, folder / "text.txt"), put(kc, folder / "sub" / "deep")
    dry = kc("rm", piped=f"{gone}\n")
    assert dry.returncode == 0
    before = store.usage().objects
    assert "would remove" in kc("gc", "--dry-run").stdout
    assert store.usage().objects == before
    report = json.loads(kc("gc", "--json").stdout)
    assert report["removed_objects"] > 0
    assert kc("cat", kept, "text.txt").stdout == "text"
    assert kc("cat", gone).returncode == 3


def test_artifact_that_is_named_twice_is_removed_once(kc, folder):
    digest = put(kc, folder)
    done = kc("rm", digest, "@", digest[:12])
    assert (done.returncode, done.stderr) == (0, f"removed {digest[:12]}\n")


def test_wrong_name_in_a_list_removes_nothing(kc, store, folder):
    digest = put(kc, folder)
    assert kc("rm", digest, "nobody").returncode == 3
    assert [entry.digest for entry in store.artifacts()] == [digest]


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


def test_room_is_shown_with_what_is_shared(kc, store):
    memory = stores.random_bytes(9 << 20)
    first, _ = stores.publish_memory(store, memory, number=1)
    second, _ = stores.publish_memory(store, memory, number=2)
    report = json.loads(kc("du", "--json").stdout)
    sizes = {entry["digest"]: entry["usage"] for entry in report["artifacts"]}
    assert sizes.keys() == {first, second}
    for usage in sizes.values():
        assert usage["shared_bytes"] > 9 << 20
    assert report["store"]["stored_bytes"] < 10 << 20
    assert "the store" in kc("du", "@").stdout
    piped = json.loads(kc("du", "--json", piped=f"{first}\n").stdout)
    assert [entry["digest"] for entry in piped["artifacts"]] == [first]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_commands_and_artifacts_are_completed_by_each_shell(kc, folder, shell):
    digest = put(kc, folder / "text.txt")

    def complete(line):
        variables = {"_KC_STORE_COMPLETE": f"complete_{shell}", "COMP_WORDS": line,
                     "COMP_CWORD": str(line.count(" ")), "_TYPER_COMPLETE_ARGS": line}  # fmt: skip
        if shell == "fish":
            variables["_TYPER_COMPLETE_FISH_ACTION"] = "get-args"
        return kc(env=variables).stdout

    assert "export" in complete("kc-store exp")
    assert digest[:12] in complete(f"kc-store export {digest[:5]}")
    assert "@files" in complete("kc-store du @f")


def test_digests_may_be_in_upper_case(kc, folder):
    digest = put(kc, folder / "text.txt")
    text = hashlib.sha256(b"text").hexdigest()
    assert kc("cat", digest.upper(), "text.txt").stdout == "text"
    assert kc("cat", f"file:{text.upper()} ").stdout == "text"
    assert kc("du", piped=f"  {digest.upper()}\r\n").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "command"),
    [(("nope",), "kc-store"), (("--nope",), "kc-store"), (("check", "--sample", "101"), "kc-store check"),
     (("name", "x"), "kc-store name"), (("ls", "extra"), "kc-store ls"), (("gc", "--nope"), "kc-store gc")],
)  # fmt: skip
def test_wrong_arguments_name_the_help_of_their_command(kc, arguments, command):
    assert f"  next: `{command} --help` shows" in kc(*arguments).stderr


@pytest.mark.parametrize(
    "arguments",
    [("nope",), (), ("check", "--sample", "101"), ("check", "--sample", "x"), ("prune",), ("name", "x"),
     ("prune", "--keep-last", "-1"), ("export", "@"), ("put",), ("get",), ("ls", "extra")],
)  # fmt: skip
def test_wrong_arguments_end_with_2(kc, arguments):
    done = kc(*arguments)
    assert done.returncode == 2
    assert "--help" in done.stderr
    assert done.stdout == ""


def test_a_percentage_that_is_no_number_is_wrong_usage(kc, folder):
    put(kc, folder / "text.txt")
    done = kc("check", "--sample", "nan")
    assert (done.returncode, done.stdout) == (2, "")
    assert "nan is no percentage\n  next: " in done.stderr


def test_cat_to_a_standard_output_that_is_closed_is_wrong_usage(kc, store, folder):
    put(kc, folder / "text.txt")
    done = kc("cat", "@", preexec_fn=lambda: os.close(1))
    assert done.returncode == 2
    assert "standard output is closed\n  next: " in done.stderr
    assert store.check().ok


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
    assert store.artifacts() == []


def test_store_whose_path_is_not_utf8_works_and_is_named(folder, tmp_path):
    root = tmp_path / os.fsdecode(b"caf\xe9") / "store"
    digest = executables.run("kc-store", "put", folder, store=root).stdout.strip()
    done = executables.run("kc-store", "get", digest, tmp_path / "copy", store=root)
    assert (done.returncode, done.stderr) == (0, "")
    assert tree_of(tmp_path / "copy") == tree_of(folder)
    (root / "format").write_text("kerncap-store 2\n")
    done = executables.run("kc-show", digest, store=root)
    assert done.returncode == 6
    assert "caf\\xe9/store is a store of a format that we do not know" in done.stderr


def test_store_that_is_not_there_is_not_made_by_looking(tmp_path):
    for command in (("ls",), ("check",), ("gc",), ("du",)):
        done = executables.run("kc-store", *command, store=tmp_path / "nowhere")
        assert done.returncode == 3, command
        assert "nowhere" in done.stderr
    assert not (tmp_path / "nowhere").exists()


def test_help_says_where_the_store_is(kc):
    shown = kc("--help").stdout
    assert "`--store DIR`" in shown
    assert "KERNCAP_STORE" in shown
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.parametrize(
    "command",
    ["check", "gc", "ls", "du", "name", "unname", "rm", "prune", "export", "import", "put", "get", "cat"],
)
def test_every_command_has_help_with_an_example(kc, command):
    done = kc(command, "--help")
    assert done.returncode == 0
    assert f"Example:\n    kc-store {command}" in done.stdout
    assert "Exit codes:" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
