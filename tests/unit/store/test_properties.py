"""Whatever is put comes back, in whatever pieces it came; and whatever is done, the store stays whole."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from stores import manifest, random_bytes

from kerncap_stages._native import CHUNK_SIZE_BYTES
from kerncap_stages.store import Store
from kerncap_stages.store.check import check_store
from kerncap_stages.store.collect import collect_garbage

# Runs of memory as programs have it: (kind, length in bytes), of lengths that often end near a chunk's end.
NEAR_CHUNKS = st.builds(
    lambda chunks, delta: max(0, chunks * CHUNK_SIZE_BYTES + delta), st.integers(0, 2), st.integers(-2, 2)
)
LENGTHS = st.one_of(st.integers(0, 5000), NEAR_CHUNKS)
RUNS = st.lists(st.tuples(st.sampled_from(["zeros", "noise", "small", "same"]), LENGTHS), max_size=5)


def memory_of(runs):
    parts = [np.empty(0, np.uint8)]
    for seed, (kind, length) in enumerate(runs):
        match kind:
            case "zeros":
                parts.append(np.zeros(length, np.uint8))
            case "noise":
                parts.append(random_bytes(length, seed))
            case "small":
                parts.append(random_bytes(length, seed) % 3)
            case _:
                parts.append(np.full(length, 0x3F, np.uint8))
    return np.concatenate(parts)


@settings(max_examples=60, deadline=None)
@given(payload=st.binary(max_size=3000), times=st.integers(1, 200))
def test_any_payload_comes_back(tmp_path_factory, payload, times):
    store = Store.open(tmp_path_factory.getbasetemp() / "payloads")
    with store.begin_transaction() as transaction:
        digest = transaction.put_bytes(payload * times)
        transaction.publish(manifest(file=f"file:{digest}"), "capture")
    assert digest == hashlib.sha256(payload * times).hexdigest()
    assert store.get(digest) == payload * times


@settings(max_examples=40, deadline=None)
@given(runs=RUNS, data=st.data())
def test_any_memory_comes_back_whatever_pieces_it_came_in(tmp_path_factory, runs, data):
    store = Store.open(tmp_path_factory.getbasetemp() / "memories")
    memory = memory_of(runs)
    cuts = sorted(data.draw(st.lists(st.integers(0, memory.size), max_size=6)))
    with store.begin_transaction() as transaction:
        digest = transaction.put_memory(memory)
        writer = transaction.open_memory_writer(memory.size)
        for start, end in zip([0, *cuts], [*cuts, memory.size], strict=True):
            if memory[start:end].any():
                writer.append(memory[start:end])
            else:
                writer.append_zeros(end - start)
        assert writer.finish() == digest
        transaction.publish(manifest(memory=f"memory:{digest}"), "capture")
    assert np.array_equal(store.read_memory(digest), memory)


class StoreModel(RuleBasedStateMachine):
    """Publishing, removing, naming and collecting in any order, against sets in memory."""

    def __init__(self):
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="kerncap-model-"))
        self.store = Store.open(self.folder / "store")
        self.listed = {}  # artifact: its payloads, of its parents too
        self.names = {}
        self.open = None
        self.staged = set()

    def teardown(self):
        if self.open is not None:
            self.open.__exit__(None, None, None)
        shutil.rmtree(self.folder)

    @rule(payloads=st.lists(st.integers(0, 9), max_size=3), data=st.data())
    def publish(self, payloads, data):
        some = st.lists(st.sampled_from(sorted(self.listed)), max_size=2) if self.listed else st.just([])
        parents, copied = data.draw(some), data.draw(some)
        with self.store.begin_transaction() as transaction:
            files = [transaction.put_bytes(b"payload %d" % number) for number in payloads]
            # A manifest kept as a file is the same object, and leads to nothing.
            files += [transaction.put_bytes(self.store.get(artifact)) for artifact in copied]
            content = {"files": [f"file:{each}" for each in files]}
            content["parents"] = [f"manifest:{parent}" for parent in parents]
            artifact = transaction.publish(manifest(**content), "capture", parents)
        needed = {artifact, *files}.union(*(self.listed[parent] for parent in parents))
        self.listed[artifact] = needed

    @precondition(lambda self: self.listed)
    @rule(data=st.data())
    def remove(self, data):
        artifact = data.draw(st.sampled_from(sorted(self.listed)))
        self.store.remove(artifact)
        del self.listed[artifact]
        self.names = {name: digest for name, digest in self.names.items() if digest != artifact}

    @precondition(lambda self: self.listed)
    @rule(name=st.sampled_from(["one", "two"]), data=st.data())
    def name(self, name, data):
        artifact = data.draw(st.sampled_from(sorted(self.listed)))
        self.store.name(name, artifact)
        self.names[name] = artifact

    @rule(number=st.integers(0, 9))
    def stage(self, number):
        if self.open is None:
            self.open = self.store.begin_transaction()
        self.staged.add(self.open.put_bytes(b"payload %d" % number))

    @precondition(lambda self: self.open is not None)
    @rule(forget=st.booleans())
    def end(self, forget):
        if not forget:
            artifact = self.open.publish(
                manifest(files=[f"file:{each}" for each in sorted(self.staged)]), "capture"
            )
            self.listed[artifact] = {artifact, *self.staged}
        self.open.__exit__(None, None, None)
        self.open, self.staged = None, set()

    @rule()
    def collect(self):
        collect_garbage(self.store)
        there = {path.name for path in (self.store.root / "objects").glob("*/*")}
        needed = set().union(*self.listed.values())
        assert needed <= there
        assert there <= needed | self.staged

    @invariant()
    def the_store_is_whole(self):
        assert {entry.digest for entry in self.store.list_artifacts()} == set(self.listed)
        assert self.store.names() == self.names
        assert check_store(self.store).ok


StoreModel.TestCase.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)
test_the_store_stays_whole_whatever_is_done = StoreModel.TestCase
