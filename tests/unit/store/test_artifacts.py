"""The list of artifacts, names, what people type, and the action cache."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import stat
import time
from pathlib import Path

import pytest
from stores import manifest, publish_memory, random_bytes

from kerncap_stages.digest import Digest
from kerncap_stages.errors import ArtifactError, ArtifactNotFound, StoreError, UsageError
from kerncap_stages.store import Store
from kerncap_stages.store.check import check_store
from kerncap_stages.store.collect import collect_garbage


def publish(store, kind="capture", parents=(), **content):
    with store.begin_transaction() as transaction:
        content["parents"] = [f"manifest:{parent}" for parent in parents]
        return transaction.publish(manifest(kind, **content), kind, parents)


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


def test_latest_of_a_kind_and_the_one_before(store):
    one, two = publish(store, n=1), publish(store, n=2)
    publish(store, "profile")
    assert store.resolve("@capture") == two
    assert store.resolve("@capture~1") == one
    with pytest.raises(ArtifactNotFound, match="there are only 2 of kind capture in the store"):
        store.resolve("@capture~2")
    with pytest.raises(ArtifactNotFound, match="there is no replay yet in the store"):
        store.resolve("@replay")
    for wrong in ("@capture~", "@capture~x", "@~-1"):
        with pytest.raises(UsageError):
            store.resolve(wrong)


def test_a_unique_prefix_means_its_artifact(store):
    digest = publish(store)
    assert store.resolve(digest) == store.resolve(digest[:4]) == digest


def test_digests_of_other_tools_are_taken_as_they_print_them(store):
    """In upper case, with blanks or the line's end around them."""
    digest = publish(store)
    assert digest.upper() != digest
    for text in (digest.upper(), digest[:8].upper(), f" {digest}", f"{digest}\r\n", f"\t{digest[:8]} "):
        assert store.resolve(text) == digest
    store.name("Mine", digest)
    assert store.resolve(" Mine ") == digest
    with pytest.raises(ArtifactNotFound):
        store.resolve("MINE")


def test_a_name_that_an_older_version_gave_is_still_a_name(store):
    digest, other = publish(store, n=1), publish(store, n=2)
    name = other[:6].upper()
    (store.root / "names" / name).write_text(f"{digest}\n")
    assert store.resolve(name) == digest


def test_an_ambiguous_prefix_lists_the_candidates(store):
    for letter in "0123":
        file = store.root / "artifacts" / (f"abcd{letter}" + "0" * 59)
        file.write_bytes(b'{"created_at_ns":1,"kind":"capture","parents":[]}\n')
    with pytest.raises(
        UsageError, match=r"'abcd' is the start of 4 digests: abcd00000000 \(capture\)"
    ) as raised:
        store.resolve("abcd")
    assert raised.value.hint == "give more digits"
    assert store.resolve("abcd2").startswith("abcd2")


@pytest.mark.parametrize(
    "text", ["", "abc", "no-such", "../../etc/passwd", "f" * 64, "0123", "g" * 64, "g" * 5000, "a\0b"]
)
def test_what_means_nothing_is_named_in_the_error(store, text):
    with pytest.raises(ArtifactNotFound, match=re.escape(repr(text))):
        store.resolve(text)


def test_objects_that_are_not_listed_answer_to_a_prefix(store):
    _, digest = publish_memory(store, random_bytes(10))
    assert store.resolve(digest[:12]) == store.resolve(digest) == digest


def test_names_point_at_artifacts(store):
    digest = publish(store)
    store.name("before-fix", digest)
    assert store.resolve("before-fix") == digest
    assert store.names() == {"before-fix": digest}
    assert store.list_artifacts()[0].names == ("before-fix",)
    store.unname("before-fix")
    assert store.names() == {}
    with pytest.raises(ArtifactNotFound, match="before-fix"):
        store.unname("before-fix")


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "../up", "a/b", "-x", "@x", "abcd", "ABCD", "Abc1", "0" * 64, "x" * 101, "a\n", "ü"],
)
def test_a_name_that_could_mean_something_else_is_refused(store, name):
    digest = publish(store)
    with pytest.raises(UsageError, match="cannot be a name"):
        store.name(name, digest)
    assert store.names() == {}


def test_a_name_is_on_the_disk_before_it_is_given(store, monkeypatch):
    digest = publish(store)
    synced = []
    sync = os.fsync
    place_of = lambda fd: str(Path(f"/proc/self/fd/{fd}").readlink())  # noqa: E731
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(place_of(fd)) or sync(fd))
    store.name("mine", digest)
    [draft, folder] = synced
    assert draft.startswith(f"{store.root}/tmp/small-")
    assert folder == str(store.root / "names")
    del synced[:]
    store.unname("mine")
    assert synced == [folder]


def test_only_what_is_there_can_be_named(store):
    with pytest.raises(ArtifactNotFound):
        store.name("x", Digest("0" * 64))


def test_only_artifacts_can_be_named(store):
    """A collection follows a name as it follows a manifest: the chunks of a memory would go."""
    _, memory = publish_memory(store, random_bytes(10))
    with store.begin_transaction() as transaction:
        file = transaction.put_bytes(b"no manifest")
        transaction.publish_objects()
    for digest in (memory, file):
        with pytest.raises(UsageError, match="is not an artifact"):
            store.name("mine", digest)


def test_prune_keeps_the_newest_of_each_kind_and_named_ones(store):
    old, middle, new = (publish(store, n=n) for n in range(3))
    profile = publish(store, "profile")
    store.name("keep", old)
    assert store.prune(1) == [middle]
    assert {entry.digest for entry in store.list_artifacts()} == {old, new, profile}


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


def test_a_manifest_never_names_what_is_missing(store):
    with store.begin_transaction() as transaction:
        for kind in ("manifest", "memory", "file"):
            with pytest.raises(ArtifactError, match=f"refers to 0000000000.*{'0' * 64} is missing"):
                transaction.publish(manifest(of=f"{kind}:{'0' * 64}"), "capture")
    assert store.list_artifacts() == []


def test_a_manifest_never_names_memory_whose_chunk_is_missing(store):
    memory = random_bytes(100)
    artifact, digest = publish_memory(store, memory)
    with store.begin_transaction() as transaction:
        chunk = transaction.put_bytes(memory)
    (store.root / "objects" / chunk[:2] / chunk).unlink()
    with store.begin_transaction() as transaction, pytest.raises(ArtifactError, match=chunk):
        transaction.publish(manifest(n=2, of=f"memory:{digest}"), "capture")
    assert [entry.digest for entry in store.list_artifacts()] == [artifact]


@pytest.mark.parametrize("text", ['--x="memory:{}', 'a"manifest:{}', '\\"file:{}', "x memory:{}"])
def test_text_that_ends_like_a_reference_is_none(store, text):
    """In JSON a quote inside a string has a backslash before it."""
    publish(store, command=[text.format("0" * 64)])
    assert check_store(store).ok
    assert collect_garbage(store).removed_objects == 0


@pytest.mark.parametrize(
    "content", [{"deep": [{"x": "file:{}"}]}, {"of": {"file:{}": 1}}, {"a\\": "file:{}"}]
)
def test_a_reference_is_followed_wherever_it_stands(store, content):
    with store.begin_transaction() as transaction:
        file = transaction.put_bytes(b"needed")
        transaction.publish(manifest(**json.loads(json.dumps(content).replace("{}", file))), "capture")
    assert collect_garbage(store).removed_objects == 0
    assert store.get(file) == b"needed"


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b'{"kind": "capture"}\n', "canonical"),
        (b'{"kind":"capture"}', "canonical"),
        (b'{"kind":"profile"}\n', "is a profile"),
        (b'{"kind":"capture","x":"memory\\u003a0"}\n', "canonical"),
    ],
)
def test_publish_refuses_what_a_collector_could_misread(store, payload, reason):
    with store.begin_transaction() as transaction, pytest.raises(ValueError, match=reason):
        transaction.publish(payload, "capture")


def test_publish_refuses_a_parent_that_the_manifest_does_not_name(store):
    parent = publish(store)
    with store.begin_transaction() as transaction, pytest.raises(ValueError, match="parent"):
        transaction.publish(manifest(n=1), "capture", [parent])


def test_a_manifest_beyond_the_bound_is_refused(store):
    with store.begin_transaction() as transaction, pytest.raises(UsageError, match="67,108,864") as raised:
        transaction.publish(manifest(text="x" * (64 << 20)), "capture")
    assert "less at once" in raised.value.hint
    assert store.list_artifacts() == []


def test_several_artifacts_can_be_published_in_one_transaction(store):
    with store.begin_transaction() as transaction:
        first = transaction.publish(manifest(n=1), "capture")
        assert store.resolve("@") == first
        second = transaction.publish(manifest(n=2, parents=[f"manifest:{first}"]), "capture", [first])
    assert {entry.digest for entry in store.list_artifacts()} == {first, second}


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


def after_a_look(store, monkeypatch, happens):
    """Let something happen when ``prune`` has looked once at the list, as from another process."""
    artifacts = Store.list_artifacts

    def look(self, kind=None):
        entries = artifacts(self, kind)
        if self is store:
            monkeypatch.undo()
            happens(Store.open(store.root))
        return entries

    monkeypatch.setattr(Store, "list_artifacts", look)


def test_two_prunes_at_once_both_end_well(store, monkeypatch):
    first, second, third = (publish(store, n=number) for number in range(3))
    after_a_look(store, monkeypatch, lambda other: other.remove(first))
    assert store.prune(1) == [second]
    assert [entry.digest for entry in store.list_artifacts()] == [third]


def test_prune_spares_what_is_named_after_its_first_look(store, monkeypatch):
    first, _, third = (publish(store, n=number) for number in range(3))
    after_a_look(store, monkeypatch, lambda other: other.name("mine", first))
    store.prune(1)
    assert [(entry.digest, entry.names) for entry in store.list_artifacts()] == [
        (third, ()),
        (first, ("mine",)),
    ]


def test_prune_spares_what_is_made_again_after_its_first_look(store, monkeypatch):
    first, _ = (publish(store, n=number) for number in range(2))
    after_a_look(store, monkeypatch, lambda other: publish(other, n=0))
    store.prune(1)
    assert [entry.digest for entry in store.list_artifacts()] == [first]


def test_an_artifact_that_is_removed_while_prune_removes_it_is_no_error(store, monkeypatch):
    first, second, third = (publish(store, n=number) for number in range(3))
    remove = Store.remove

    def slower(self, digest):
        """As if `kc-store rm` had taken one just before."""
        if digest == first:
            remove(self, first)
        remove(self, digest)

    monkeypatch.setattr(Store, "remove", slower)
    assert store.prune(1) == [second]
    assert [entry.digest for entry in store.list_artifacts()] == [third]


def test_nobody_names_anything_while_prune_removes(store, monkeypatch):
    publish(store)
    free = []

    def remove(*_):
        with (store.root / "gate").open() as gate, contextlib.suppress(BlockingIOError):
            fcntl.flock(gate, fcntl.LOCK_SH | fcntl.LOCK_NB)
            free.append("gate")

    monkeypatch.setattr(Store, "remove", remove)
    store.prune(0)
    assert free == []


def test_a_missing_folder_is_named_with_the_next_step(store):
    for missing, use in (("names", Store.names), ("artifacts", Store.list_artifacts)):
        (store.root / missing).rename(store.root / "elsewhere")
        with pytest.raises(StoreError, match=f"{missing}.*does not exist") as caught:
            use(store)
        assert "mkdir" in caught.value.hint
        (store.root / "elsewhere").rename(store.root / missing)
