"""Handles the messages of one process under profile: its kernels, and the times of their dispatches."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kerncap_stages.collect import protocol
from kerncap_stages.collect.facts import Facts
from kerncap_stages.collect.modules import Modules
from kerncap_stages.collect.ranking import UNLISTED
from kerncap_stages.collect.statistics import Tally, tally_records
from kerncap_stages.collect.wire import ProtocolError
from kerncap_stages.manifests.environment import Backend

if TYPE_CHECKING:
    from collections.abc import Callable

    from kerncap_stages.collect.connection import Connection
    from kerncap_stages.collect.triton_configurations import CodeKey


@dataclass
class ProcessProfile:
    """The kernels that one process ran: their tallies by (mangled, demangled) name."""

    process_id: int
    backend: Backend
    facts: Facts
    tallies: dict[tuple[str | None, str], Tally] = field(default_factory=dict)
    trials: dict[tuple[str | None, str], Tally] = field(default_factory=dict)  # an autotuner's
    # calls and nanoseconds by the kernels' mangled names and the checksums of their code objects
    code_times: dict[CodeKey, tuple[int, int]] = field(default_factory=dict)
    dispatches: int = 0
    untimed: int = 0
    uninterceptable_queues: int = 0
    lost: bool = False  # the process closed its connection to the collector and went on
    failure: tuple[protocol.FailureCode, str] | None = None  # why it was not profiled


class ProfileSession:
    """The Session of kc-profile."""

    def __init__(self, connection: Connection, emit: Callable[[Any], None]) -> None:
        self._connection = connection
        self._emit = emit
        self._facts = Facts()
        self._modules = Modules()
        self._tallies: dict[int, Tally] = {}
        self._trials: dict[int, Tally] = {}
        self._failure: tuple[protocol.FailureCode, str] | None = None

    def handle(self, message: protocol.UpMessage) -> None:
        """Handle a message, and tally the dispatch records that have arrived."""
        match message:
            case protocol.Facts():
                self._facts.add(message)
            case protocol.Failed():
                self._failure = (message.code, message.reason)
            case protocol.ModuleEnd() | protocol.Note():
                pass
            case _ if not self._modules.handle(message):
                raise ProtocolError(
                    f"the capture library sent {message.NUMBER.name}, which a profile does not expect"
                )
        self.do_pending_work()

    def do_pending_work(self) -> None:
        """Tally the dispatch records that have arrived."""
        records = self._connection.shared.take_records()
        in_trial = records["in_trial"] != 0
        tally_records(records[~in_trial], self._tallies)
        tally_records(records[in_trial], self._trials)

    def close(self) -> None:
        """Tally the last records, and emit the profile of the process."""
        self.do_pending_work()
        shared = self._connection.shared
        profile = ProcessProfile(
            process_id=self._connection.process_id,
            backend=Backend(self._connection.backend),
            facts=self._facts,
            dispatches=shared.dispatches,
            untimed=shared.untimed,
            uninterceptable_queues=shared.uninterceptable_queues,
            lost=self._connection.is_lost(),
            failure=self._failure,
        )
        for tallies, named in ((self._tallies, profile.tallies), (self._trials, profile.trials)):
            for number, tally in tallies.items():
                kernel = self._modules.kernels.get(number)
                name = (None, UNLISTED) if kernel is None else (kernel.mangled, kernel.demangled)
                named.setdefault(name, Tally()).merge(tally)
        profile.code_times = self._add_up_code()
        self._emit(profile)

    def _add_up_code(self) -> dict[CodeKey, tuple[int, int]]:
        """Add up times by code objects: several may have a kernel of one name."""
        times: dict[CodeKey, tuple[int, int]] = {}
        for number, tally in self._tallies.items():
            kernel = self._modules.kernels.get(number)
            checksum = 0 if kernel is None else self._modules.get(kernel.module).checksum
            if kernel is not None and checksum:
                calls, total_ns = times.get((kernel.mangled, checksum), (0, 0))
                times[kernel.mangled, checksum] = (calls + tally.calls, total_ns + tally.total_ns)
        return times
