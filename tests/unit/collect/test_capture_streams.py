"""A disk that refuses while a capture comes in: the capture fails with the store's word, however late."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from messages import capture_message, region_message

from kerncap_stages.collect import protocol
from kerncap_stages.collect.capture_builder import CaptureContext
from kerncap_stages.collect.capture_events import Captured, CaptureFailed
from kerncap_stages.collect.capture_session import CaptureSession
from kerncap_stages.collect.protocol import StreamKind
from kerncap_stages.collect.selection import KernelRule
from kerncap_stages.errors import StoreError
from kerncap_stages.manifests.capture import NameMatch, Selection
from kerncap_stages.store import Store
from kerncap_stages.store.transaction import Transaction

SLOT_BYTES = 4096
PIECES = 3


class FullDisk:
    """Stands in for a MemoryWriter; refuses to begin a piece, to stage one, or to end."""

    def __init__(self, refuses: str) -> None:
        self._refuses = refuses
        self._started = 0

    def _must_not(self, what: str) -> None:
        if self._refuses == what:
            raise StoreError("No space left on device")

    def start(self, _view):
        number = self._started
        self._started += 1
        self._must_not(f"start {number}")
        return SimpleNamespace(finish=lambda: self._must_not(f"piece {number}"))

    def finish(self):
        self._must_not("finish")
        raise AssertionError("the memory was not to be whole")


def session_on(store, events):
    slot = bytearray(SLOT_BYTES)
    shared = SimpleNamespace(
        slot_count=4,
        slot_bytes=SLOT_BYTES,
        view_slot=lambda _index, size: memoryview(slot)[:size],
        count_matched=lambda _rule: 1,
        count_trials=lambda _rule: 0,
        read_other_shape=lambda _rule: None,
        dispatches=1,
        uninterceptable_queues=0,
        unlisted=0,
    )
    connection = SimpleNamespace(
        process_id=1, backend="hsa", shared=shared, send=lambda _message: None, is_lost=lambda: False
    )
    rules = [KernelRule.from_selection(Selection(match=NameMatch.SUBSTRING, pattern="a"))]
    return CaptureSession(connection, events.append, rules, CaptureContext(store, lambda: None))


def send_a_capture(session):
    """What the library sends of a dispatch with one region, whether or not it is taken in."""
    size = PIECES * SLOT_BYTES
    session.handle(
        protocol.Module(module=1, device=0, load_address=0x1000, load_bytes=4096, checksum=0, uri="")
    )
    session.handle(capture_message())
    region = region_message(size_bytes=size)
    session.handle(protocol.Regions(capture=0, regions=(region,)))
    for stream, kind in enumerate((StreamKind.PRE, StreamKind.POST)):
        session.handle(protocol.Open(stream=stream, kind=kind, capture=0, index=0, size_bytes=size))
        for piece in range(PIECES):
            session.handle(protocol.Data(stream=stream, slot=piece, size_bytes=SLOT_BYTES))
        session.handle(protocol.Close(stream=stream))
    session.handle(protocol.Done(capture=0, cost=protocol.Cost(1, 1, 1, 1, 1, size)))


@pytest.mark.parametrize(
    "refuses", [*(f"start {i}" for i in range(PIECES)), *(f"piece {i}" for i in range(PIECES)), "finish"]
)
def test_the_capture_fails_and_leaves_nothing(monkeypatch, tmp_path, refuses):
    monkeypatch.setattr(Transaction, "open_memory_writer", lambda _self, _size: FullDisk(refuses))
    store = Store.open(tmp_path / "store")
    events = []
    session = session_on(store, events)
    send_a_capture(session)
    session.close()
    (failure,) = [event for event in events if isinstance(event, CaptureFailed)]
    assert isinstance(failure.error, StoreError)
    assert not [event for event in events if isinstance(event, Captured)]
    assert list((store.root / "tmp").iterdir()) == []


@pytest.mark.parametrize("name", ["begin_transaction", "open_memory_writer"])
def test_a_capture_that_cannot_even_be_begun(monkeypatch, tmp_path, name):
    def refuse(*_):
        raise StoreError("No space left on device")

    monkeypatch.setattr(
        *{"begin_transaction": (Store, name), "open_memory_writer": (Transaction, name)}[name], refuse
    )
    store = Store.open(tmp_path / "store")
    events = []
    session = session_on(store, events)
    send_a_capture(session)
    session.close()
    (failure,) = [event for event in events if isinstance(event, CaptureFailed)]
    assert isinstance(failure.error, StoreError)
    assert list((store.root / "tmp").iterdir()) == []
