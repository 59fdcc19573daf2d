"""What profiling and capturing cost a program.

Without an AMD GPU the speed of dispatches is that of the software GPU, and only what the callback and the
store path cost is as on hardware.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
from typing import TYPE_CHECKING, Any

from frame import Figure, Run, at_least, at_most, row
from programs import SOURCES, Build, Program, compile_once
from stopwatch import Seconds, Stopwatch
from store_memory import GB, noise, write_plainly
from watching import number, watched

from kerncap_stages.collect.connection import LibrarySettings
from kerncap_stages.collect.program import ProgramSpec
from kerncap_stages.collect.protocol import Close, Data, FreeSlot, Mode, Open, UpMessage
from kerncap_stages.collect.server import Collector
from kerncap_stages.machine.native_paths import LIBRARY_FOLDER
from kerncap_stages.machine.softgpu import SoftGpu
from kerncap_stages.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable

_ROUNDS = 5
_EMPTY_KERNELS = 20_000


def plain(command: list[object]) -> str:
    """What a program prints without us."""
    environment = SoftGpu("gfx90a").make_environment()
    words = [str(word) for word in command]
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=True).stdout


def many_dispatches(count: int) -> list[object]:
    """A program that runs so many empty kernels."""
    program = Program(SOURCES / "capture/many_dispatches.hip")
    return [compile_once(Build(program, "gfx90a", "O3")), count, 0]


@row("capture.callback", "a dispatch that nobody wants, in the queue's callback", at_most(1000, "value"))
def callback(_run: Run) -> Figure:
    bench = LIBRARY_FOLDER / "callback_bench"
    figures = {}
    for name, words in (
        ("alone", (2_000_000, 1, 1)),
        ("of a batch of 80", (50_000, 80, 1)),
        ("two threads", (1_000_000, 1, 2)),
    ):
        texts = [watched([bench, *words]) for _ in range(_ROUNDS)]
        assert all("counted 1" in text for text in texts)
        figures[name] = statistics.median(number(text, "ns_per_dispatch") for text in texts)
    note = ", ".join(f"{name} {figure:.0f}" for name, figure in figures.items())
    return Figure(max(figures.values()), "ns", note=note)


def dispatch_rate(run: Run, mode: Mode) -> Figure:
    """Empty kernels a second, watched and plain."""

    def taken(printed: Callable[[], str]) -> Seconds:
        watch = Stopwatch()
        return watch.stop(_EMPTY_KERNELS / number(printed(), "dispatches_per_s"))

    command = many_dispatches(_EMPTY_KERNELS)
    ours, theirs, ratio, cpu = run.paired(
        lambda: taken(lambda: watched(command, mode)), lambda: taken(lambda: plain(command)), _ROUNDS
    )
    return Figure(_EMPTY_KERNELS / ours, "kernels/s", _EMPTY_KERNELS / theirs, 1 / ratio, cpu_ratio=1 / cpu)


@row("capture.queue", "empty kernels through a watched queue / through a plain one")
def watched_queue(run: Run) -> Figure:
    return dispatch_rate(run, Mode.CAPTURE)


@row("capture.profile", "empty kernels through a profiled queue / through a plain one")
def profiled_queue(run: Run) -> Figure:
    return dispatch_rate(run, Mode.PROFILE)


@row("capture.start", "start-up: how much longer a program of one kernel takes", at_most(0.3, "value"))
def start_up(_run: Run) -> Figure:
    command = many_dispatches(1)
    rounds = []
    for _ in range(_ROUNDS):
        watch = Stopwatch()
        plain(command)
        alone = watch.stop()
        watch = Stopwatch()
        watched(command)
        rounds.append((alone, watch.stop()))
    more = statistics.median(ours - alone for alone, ours in rounds)
    return Figure(more, "s", note=f"{statistics.median(alone for alone, _ in rounds):.2f} s alone")


class Storing:
    """A session that puts one stream into a store, as kc-capture's does."""

    def __init__(self, connection: Any, emit: Any, store: Store) -> None:
        self._connection, self._emit, self._store = connection, emit, store

    def handle(self, message: UpMessage) -> None:
        """Take in a stream."""
        if isinstance(message, Open):
            self._context = self._store.begin_transaction()
            self._transaction = self._context.__enter__()
            self._writer = self._transaction.open_memory_writer(message.size_bytes)
        if isinstance(message, Data):
            with self._connection.shared.view_slot(message.slot, message.size_bytes) as view:
                self._writer.append(view)
            self._connection.send(FreeSlot(message.slot))
        if isinstance(message, Close):
            text = f'{{"kind":"capture","memory":"memory:{self._writer.finish()}","schema_version":1}}\n'
            counts = self._transaction.get_counts()
            self._transaction.publish(text.encode(), "capture")
            self._context.__exit__(None, None, None)
            self._emit(counts)

    def do_pending_work(self) -> None:
        """Nothing to do."""

    def close(self) -> None:
        """Nothing is left."""


def sent_and_stored(run: Run, size_bytes: int) -> Seconds:
    """Seconds from the first byte in shared memory to a published artifact; the process's start is in it."""
    place = run.place()
    try:
        store = Store.open(place / "store")
        command = (str(LIBRARY_FOLDER / "capture_client"), "noise", str(size_bytes))
        watch = Stopwatch()
        collector = Collector(
            ProgramSpec(command),
            LibrarySettings(Mode.CAPTURE),
            lambda connection, emit: Storing(connection, emit, store),
        )
        try:
            (counts,) = collector.read_events(600)
        finally:
            collector.close()
        assert counts["new_bytes"] >= size_bytes
        return watch.stop()
    finally:
        shutil.rmtree(place)


@row(
    "capture.store",
    "incompressible memory of a program, into the store / plain hash + file loop",
    at_least(0.75),
)
def store_path(run: Run) -> Figure:
    memory = noise(run)
    ours, theirs, ratio, cpu = run.paired(
        lambda: sent_and_stored(run, memory.size), lambda: write_plainly(run, memory)
    )
    size_gb = memory.size / GB
    return Figure(size_gb / ours, "GB/s", size_gb / theirs, 1 / ratio, cpu_ratio=1 / cpu)
