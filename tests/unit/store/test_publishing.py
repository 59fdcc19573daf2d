"""What may be published: only canonical manifests whose references are all in the store."""

from __future__ import annotations

import json

import pytest
from stores import manifest, publish, publish_memory, random_bytes

from kerncap_stages.errors import ArtifactError, UsageError
from kerncap_stages.store.check import check_store
from kerncap_stages.store.collect import collect_garbage


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
