"""The collector against the library's end of the protocol, in a process without a GPU."""

from __future__ import annotations

import hashlib
import socket
import subprocess
from typing import ClassVar

import numpy as np
import pytest

from kerncap_stages.collect.capture_builder import CaptureContext
from kerncap_stages.collect.capture_events import CaptureFailed, ProcessSummary
from kerncap_stages.collect.capture_session import CaptureSession
from kerncap_stages.collect.connection import Connection, LibrarySettings
from kerncap_stages.collect.profile_session import ProcessProfile, ProfileSession
from kerncap_stages.collect.program import ProgramSpec
from kerncap_stages.collect.protocol import (
    Cost,
    Data,
    FailureCode,
    FreeSlot,
    Mode,
    ModuleEnd,
    Rule,
    Up,
)
from kerncap_stages.collect.selection import KernelRule, make_answers
from kerncap_stages.collect.server import Collector
from kerncap_stages.collect.wire import ProtocolError
from kerncap_stages.errors import ExitCode, Refused
from kerncap_stages.machine.native_paths import LIBRARY_FOLDER
from kerncap_stages.manifests.capture import NameMatch, Reach, Selection
from kerncap_stages.manifests.kernel import KernargSlot
from kerncap_stages.store import Store


@pytest.fixture
def client():
    path = LIBRARY_FOLDER / "capture_client"
    assert path.exists(), "built with -Dnative_tests=enabled"
    return str(path)


def events_of(command, settings, session, **spec):
    collector = Collector(ProgramSpec(tuple(command), **spec), settings, session)
    try:
        return list(collector.read_events(60)), collector.program
    finally:
        collector.close()


class Recorder:
    """A session that writes down what it hears."""

    wanted: ClassVar = [(101, 0), (100, 1), (7, 99)]  # (kernel, rule)

    def __init__(self, connection, emit):
        self._connection, self._emit = connection, emit
        self.received = hashlib.sha256()

    def handle(self, message):
        match message:
            case ModuleEnd():
                for answer in make_answers(message.module, True, self.wanted):
                    self._connection.send(answer)
            case Data():
                with self._connection.shared.view_slot(message.slot, message.size_bytes) as view:
                    self.received.update(view)
                self._connection.send(FreeSlot(message.slot))
        self._emit(message.NUMBER)

    def do_pending_work(self):
        pass

    def close(self):
        self._emit(self.received.hexdigest())


def test_every_message_arrives(client):
    settings = LibrarySettings(Mode.CAPTURE, rules=[Rule()])
    events, program = events_of([client, "every"], settings, Recorder)
    assert program.exit_code == 0
    kinds = [event for event in events if isinstance(event, Up)]
    assert kinds == [
        Up.FACTS, Up.MODULE, Up.KERNELS, Up.VARIABLES, Up.CAPTURE, Up.REGIONS, Up.ZERO, Up.SAME, Up.DONE,
        Up.FAILED, Up.NOTE, Up.MODULE_GONE,
    ]  # fmt: skip


def test_bulk_data_comes_whole_and_in_order_through_few_slots(client):
    size = 50_000_001
    events, _ = events_of([client, "stream", str(size)], LibrarySettings(Mode.CAPTURE), Recorder)
    wanted = (np.arange(size, dtype=np.uint64) * 131 >> 5).astype(np.uint8)
    assert events[-1] == hashlib.sha256(wanted.tobytes()).hexdigest()
    slots, slot_bytes = LibrarySettings(Mode.CAPTURE).choose_slots("hsa")
    assert size > slots * slot_bytes


class Mover(Recorder):
    """Writes over what the shared memory says of its own layout, once the library has read it."""

    def handle(self, message):
        self._connection.shared._control["slots_offset"] = 1 << 40
        super().handle(message)


def test_the_library_reads_the_layout_of_the_shared_memory_once(client):
    size = 50_000_001
    events, program = events_of([client, "stream", str(size)], LibrarySettings(Mode.CAPTURE), Mover)
    assert program.exit_code == 0
    wanted = (np.arange(size, dtype=np.uint64) * 131 >> 5).astype(np.uint8)
    assert events[-1] == hashlib.sha256(wanted.tobytes()).hexdigest()


@pytest.mark.parametrize("cores", [2, 16, 32, 256])
@pytest.mark.parametrize("memory_mib", [128, 512, 1 << 20])
def test_slots_keep_all_cores_busy_within_the_budget(monkeypatch, cores, memory_mib):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(cores)))
    settings = LibrarySettings(Mode.CAPTURE, memory_bytes=memory_mib << 20)
    count, size = settings.choose_slots("cuda")
    assert count == 8
    assert count * size <= settings.memory_bytes // 2
    assert size == max(4 << 20, min(cores << 20, settings.memory_bytes // 16))


def test_the_library_hears_which_kernels_are_wanted(client, tmp_path):
    printed = tmp_path / "printed"
    settings = LibrarySettings(Mode.CAPTURE, rules=[Rule(), Rule()])
    events_of([client, "select"], settings, Recorder, stdout=printed)
    # Rule 99 does not exist: the library does not take it.
    assert printed.read_text() == "want_code 1\nmatch 101 0\nmatch 100 1\n"


def test_an_answer_may_be_longer_than_a_message(client, tmp_path):
    class Wide(Recorder):
        wanted: ClassVar = [(100 + i, i % 2) for i in range(20_000)]

    printed = tmp_path / "printed"
    settings = LibrarySettings(Mode.CAPTURE, rules=[Rule(), Rule()])
    events_of([client, "select"], settings, Wide, stdout=printed)
    assert printed.read_text().splitlines() == [
        "want_code 1",
        *(f"match {kernel} {rule}" for kernel, rule in Wide.wanted),
    ]


def test_more_records_than_the_ring_holds_are_all_counted(client):
    count = 200_000
    events, _ = events_of([client, "records", str(count)], LibrarySettings(Mode.PROFILE), ProfileSession)
    (profile,) = [event for event in events if isinstance(event, ProcessProfile)]
    (tally,) = profile.tallies.values()  # kernels of no known module share a name
    assert tally.calls == count
    assert tally.total_ns == sum(10 + i % 7 for i in range(count))


def test_a_process_that_is_killed_loses_no_record(client):
    events, program = events_of(
        [client, "records", "5000", "die"], LibrarySettings(Mode.PROFILE), ProfileSession
    )
    assert program.exit_signal == 9
    (profile,) = [event for event in events if isinstance(event, ProcessProfile)]
    assert sum(tally.calls for tally in profile.tallies.values()) == 5000


@pytest.mark.parametrize(
    "words", [("kc-profile",), ("kc-capture", "--kernel", "any")], ids=["profile", "capture"]
)
def test_a_process_that_cannot_be_recorded_at_all_is_named_as_the_reason(client, tmp_path, words):
    command = [*words, "--store", str(tmp_path / "store"), "--", str(client), "refuse"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == ExitCode.REFUSED, done.stderr
    assert f"no {words[0].removeprefix('kc-')} was made: why" in done.stderr


def test_a_forked_child_is_not_taken_for_its_parent(client):
    events, program = events_of(
        [client, "fork", "every"], LibrarySettings(Mode.CAPTURE, rules=[Rule()]), Recorder
    )
    assert program.exit_code == 0
    assert [event for event in events if event is Up.NOTE] == [Up.NOTE]


def capture_session(store, pattern):
    rules = [KernelRule.from_selection(Selection(match=NameMatch.SUBSTRING, pattern=pattern))]
    context = CaptureContext(store=store, program=lambda: None)
    return lambda connection, emit: CaptureSession(connection, emit, rules, context)


def test_xnack_is_refused(client, tmp_path):
    store = Store.open(tmp_path / "store")
    printed = tmp_path / "printed"
    settings = LibrarySettings(Mode.CAPTURE, rules=[Rule()])
    command = [client, "fact", "xnack", "1", "select"]
    events, _ = events_of(command, settings, capture_session(store, "first"), stdout=printed)
    (failure,) = [event for event in events if isinstance(event, CaptureFailed)]
    assert failure.code is FailureCode.UNSUPPORTED_MEMORY
    assert "XNACK is on" in failure.reason
    assert printed.read_text() == "want_code 0\n"
    command = [client, "fact", "xnack", "0", "select"]
    events, _ = events_of(command, settings, capture_session(store, "first"), stdout=printed)
    assert not [event for event in events if isinstance(event, CaptureFailed)]
    assert printed.read_text() == "want_code 1\nmatch 100 0\n"


def test_a_library_that_breaks_the_rules_ends_the_conversation(client, tmp_path):
    """ZERO for a capture that was never begun, and a kernel of a module that was never announced."""
    store = Store.open(tmp_path / "store")
    with pytest.raises(ProtocolError):
        events_of(
            [client, "every"], LibrarySettings(Mode.CAPTURE, rules=[Rule()]), capture_session(store, "a")
        )
    assert store.list_artifacts() == []
    assert list((store.root / "tmp").iterdir()) == []


def test_a_process_tells_what_it_loaded(client, tmp_path):
    store = Store.open(tmp_path / "store")
    events, _ = events_of(
        [client, "select"], LibrarySettings(Mode.CAPTURE, rules=[Rule()]), capture_session(store, "no")
    )
    (summary,) = [event for event in events if isinstance(event, ProcessSummary)]
    assert summary.kernels == {"first", "second"}


def test_what_a_process_sent_is_heard_though_it_ended_with_our_answers_unread():
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection = Connection(ours, lambda _event: None)
    connection.send(FreeSlot(0))
    for message in (b"one", b"two"):
        theirs.send(message)
    theirs.close()
    assert list(connection.read_messages()) == [b"one", b"two"]
    connection.close()


@pytest.mark.slow
def test_a_process_waits_for_its_turn_to_be_heard_20_s_at_most(client, tmp_path):
    """A collector that is stopped takes no connection, and only so many may wait for one."""
    address = str(tmp_path / "socket")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(address)
    listener.listen(0)
    waiting = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    waiting.connect(address)
    done = subprocess.run(
        [client, "every"],
        env={"KERNCAP_SOCKET": address},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 3
    assert "cannot reach the collector" in done.stdout
    waiting.close()
    listener.close()


class Shared:
    dispatches = uninterceptable_queues = unlisted = 0


class Process:
    """A connection whose other end says nothing."""

    backend, process_id, shared = "cuda", 1, Shared()

    def is_lost(self):
        return False


def test_cuda_takes_all_memory_and_says_so(tmp_path):
    said = []
    context = CaptureContext(Store.open(tmp_path / "store"), lambda: None, reach=Reach.REACHABLE)
    session = CaptureSession(Process(), said.append, [], context)
    session.close()
    assert "--reachable" in said[0].text
    assert session.context.reach is Reach.ALL


def test_a_capture_that_no_replay_could_follow_fails_by_name(tmp_path):
    """As one of a code object whose metadata place an argument behind the kernarg segment."""

    class Builder:
        abandoned = False

        def publish(self, _cost, _environment):
            KernargSlot(offset_bytes=-8, size_bytes=8, value_kind="by_value")

        def abandon(self):
            self.abandoned = True

    said, builder = [], Builder()
    session = CaptureSession(
        Process(), said.append, [], CaptureContext(Store.open(tmp_path / "s"), lambda: None)
    )
    session._publish(builder, Cost(0, 0, 0, 0, 0, 0))
    session.close()
    failure = said[0]
    assert "the captured dispatch could not be replayed: offset_bytes: " in failure.reason
    assert isinstance(failure.error, Refused)
    assert failure.error.hint
    assert builder.abandoned
