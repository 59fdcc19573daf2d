"""The list of artifacts, where its store is, and the results that it remembers."""

from __future__ import annotations

import json
import os
import stat
import time

import pytest
from stores import publish, publish_memory, random_bytes

from kerncap_stages.digest import Digest
from kerncap_stages.errors import ArtifactError, ArtifactNotFound, StoreError
from kerncap_stages.store import Store
from kerncap_stages.store.collect import collect_garbage


def test_artifacts_are_listed_newest_first(store):
    first = publish(store, "profile")
    second = publish(store, "capture", [first])
    entries = store.list_artifacts()
    assert [(entry.digest, entry.kind, entry.parents) for entry in entries] == [
        (second, "capture", (first,)),
        (first, "profile", ()),
    ]
    assert [entry.digest for entry in store.list_artifacts("profile")] == [first]
    assert entries[0].created_at >= entries[1].created_at


def test_an_artifact_made_again_becomes_the_latest(store):
    first, _ = publish(store, n=1), publish(store, n=2)
    assert publish(store, n=1) == first
    assert store.resolve("@") == first
    assert len(store.list_artifacts()) == 2


def test_removing_what_is_not_listed_is_an_error(store):
    with pytest.raises(ArtifactNotFound, match="not a listed artifact"):
        store.remove(Digest("0" * 64))


def test_an_action_answers_while_its_output_is_listed(store):
    key, output = Digest("1" * 64), publish(store)
    assert store.actions.get(key) is None
    store.actions.put(key, output)
    assert store.actions.get(key) == output
    store.remove(output)
    assert store.actions.get(key) is None
    assert collect_garbage(store).stale_actions == 1
    assert list((store.root / "actions").iterdir()) == []


def test_a_new_store_is_private(tmp_path):
    store = Store.open(tmp_path / "deep" / "er")
    assert stat.S_IMODE(store.root.stat().st_mode) == 0o700


def test_the_store_is_where_the_environment_says(tmp_path, monkeypatch):
    monkeypatch.setenv("KERNCAP_STORE", str(tmp_path / "a"))
    assert Store.open().root == tmp_path / "a"
    monkeypatch.delenv("KERNCAP_STORE")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert Store.open().root == tmp_path / "data/kerncap-stages/store"


def test_a_store_that_must_be_there_is_not_made(tmp_path):
    with pytest.raises(ArtifactError, match="there is no store"):
        Store.open(tmp_path / "x", create=False)
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[" * 100_000,
        b'{"created_at_ns":1e999,"kind":"x","parents":[]}',
        b'{"created_at_ns":' + b"9" * 400 + b',"kind":"x","parents":[]}',
    ],
    ids=["empty", "deep", "infinite", "large"],
)
def test_an_entry_that_says_nothing_hides_no_other(store, content):
    artifact, _ = publish_memory(store, random_bytes(10))
    (store.root / "artifacts" / ("b" * 64)).write_bytes(content)
    assert [(entry.digest, entry.kind) for entry in store.list_artifacts()] == [
        (artifact, "capture"),
        ("b" * 64, "unreadable"),
    ]
    assert store.list_artifacts()[1].created_at == 0


@pytest.mark.parametrize("folder", ["artifacts", "names"])
def test_what_is_no_file_is_not_waited_for(store, folder):
    artifact, _ = publish_memory(store, random_bytes(10))
    os.mkfifo(store.root / folder / ("b" * 64))
    (store.root / folder / ("c" * 64)).symlink_to("/dev/zero")
    assert store.list_artifacts()[0].digest == artifact
    assert store.names() == {}


def test_what_was_made_last_is_the_latest_though_the_clock_goes_back(store, monkeypatch):
    first = publish(store, n=1)
    monkeypatch.setattr(time, "time_ns", lambda: 1_000)
    second = publish(store, n=2)
    third = publish(store, n=3)
    assert [entry.digest for entry in store.list_artifacts()] == [third, second, first]
    assert store.resolve("@") == third
    assert store.prune(1) == [second, first]


def test_a_time_at_the_end_of_all_times_spoils_nothing(store):
    first = publish(store, n=1)
    entry = json.dumps({"created_at_ns": (1 << 63) - 1, "kind": "capture", "parents": []})
    (store.root / "artifacts" / first).write_text(entry + "\n")
    second = publish(store, n=2)
    assert {entry.digest: entry.kind for entry in store.list_artifacts()} == {
        first: "capture",
        second: "capture",
    }


def test_a_missing_folder_is_named_with_the_next_step(store):
    for missing, use in (("names", Store.names), ("artifacts", Store.list_artifacts)):
        (store.root / missing).rename(store.root / "elsewhere")
        with pytest.raises(StoreError, match=f"{missing}.*does not exist") as caught:
            use(store)
        assert "mkdir" in caught.value.hint
        (store.root / "elsewhere").rename(store.root / missing)
