"""Pruning keeps the newest and the named artifacts, also while others remove, name and publish."""

from __future__ import annotations

import contextlib
import fcntl

from stores import publish

from kerncap_stages.store import Store


def test_prune_keeps_the_newest_of_each_kind_and_named_ones(store):
    old, middle, new = (publish(store, n=n) for n in range(3))
    profile = publish(store, "profile")
    store.name("keep", old)
    assert store.prune(1) == [middle]
    assert {entry.digest for entry in store.list_artifacts()} == {old, new, profile}


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
