"""kc-store check, gc, ls, du, name, rm and prune, on good and on damaged stores."""

from __future__ import annotations

import json

import executables
import manifest_examples as examples
import pytest
import stores
from store_commands import damage, flip, put

from kerncap_stages.digest import Digest
from kerncap_stages.manifests import load_as
from kerncap_stages.manifests.files import Files
from kerncap_stages.store.usage import measure_usage


def test_list_of_nothing_says_so(kc, store, folder):
    put(kc, folder / "sub" / "deep")
    done = kc("ls", "--kind", "capture")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == f"no artifacts of kind capture in {store.root}\n"
    assert "deep, 1 file\n" in kc("ls").stdout


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


def test_check_names_files_that_belong_to_nothing(kc, store, folder):
    put(kc, folder / "text.txt")
    (store.root / "names" / "\x1b[31m~").write_text("notes\n")
    (store.root / "objects" / "notes.txt").touch()
    done = kc("check")
    assert done.returncode == 3
    assert "objects/notes.txt" in done.stdout
    assert "\x1b" not in done.stdout
    assert done.stderr.count("\n") == 2
    assert "2 faults" in done.stderr
    assert "move these files elsewhere" in done.stderr


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
    before = measure_usage(store).objects
    assert "would remove" in kc("gc", "--dry-run").stdout
    assert measure_usage(store).objects == before
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
    assert [entry.digest for entry in store.list_artifacts()] == [digest]


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


def test_a_percentage_that_is_no_number_is_wrong_usage(kc, folder):
    put(kc, folder / "text.txt")
    done = kc("check", "--sample", "nan")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--sample takes a number from 0 to 100, not nan\n  next: " in done.stderr
