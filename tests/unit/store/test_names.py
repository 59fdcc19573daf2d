"""Names of artifacts, and what else people type for them: prefixes of digests, the latest of a kind."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from stores import publish, publish_memory, random_bytes

from kerncap_stages.digest import Digest
from kerncap_stages.errors import ArtifactNotFound, UsageError


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
