"""Runs a program, times each of its dispatches, and ranks its kernels."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kerncap_stages import __version__
from kerncap_stages.collect.capture_events import LOST
from kerncap_stages.collect.connection import LibrarySettings
from kerncap_stages.collect.no_capture import explain_no_gpu
from kerncap_stages.collect.no_driver import explain_no_driver
from kerncap_stages.collect.profile_session import ProcessProfile, ProfileSession
from kerncap_stages.collect.protocol import FailureCode, Mode
from kerncap_stages.collect.ranking import rank_kernels
from kerncap_stages.collect.server import Collector
from kerncap_stages.collect.statistics import Tally
from kerncap_stages.collect.triton_configurations import add_configurations
from kerncap_stages.errors import AnswerIsNo, DeviceError, ProgramError, ProgramTimedOut, Refused
from kerncap_stages.manifests import dump
from kerncap_stages.manifests.environment import Backend
from kerncap_stages.manifests.profile import Profile
from kerncap_stages.manifests.timing import TimeSource
from kerncap_stages.text.formats import count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kerncap_stages.collect.program import ProgramSpec
    from kerncap_stages.collect.triton_configurations import CodeKey
    from kerncap_stages.digest import Digest
    from kerncap_stages.store import Store


@dataclass(frozen=True)
class ProfileOptions:
    """How the program is run."""

    timeout_s: float | None = None
    warn: Callable[[str], None] = field(default=lambda _text: None)
    on_made: Callable[[Profile], None] = field(default=lambda _profile: None)  # called before storing
    on_killed: Callable[[], None] = field(default=lambda: None)  # called if a signal from elsewhere ended it


def run_profile(
    store: Store, spec: ProgramSpec, options: ProfileOptions | None = None
) -> tuple[Digest, Profile]:
    """Run a program, time every dispatch, publish the profile.

    Raises AnswerIsNo if no kernel ran on a GPU, ProgramError if the program failed before a kernel ran, and
    StoreError, before the program is run if the store cannot be written. On KeyboardInterrupt, the program is
    stopped and the profile of what ran until then is published; then KeyboardInterrupt is raised again.
    """
    options = options or ProfileOptions()
    with store.begin_transaction():
        pass  # check that the store can be written before the program runs for hours
    collector = Collector(spec, LibrarySettings(Mode.PROFILE), ProfileSession)
    processes: list[ProcessProfile] = []
    interrupt: KeyboardInterrupt | None = None
    try:
        _gather(collector.read_events(options.timeout_s), processes)
    except KeyboardInterrupt as stop:
        interrupt = stop
        options.warn("interrupted: stopping the program; a second interrupt discards the profile")
        collector.stop_program()
        _gather(collector.read_events(), processes)
    finally:
        collector.close()
        for text in collector.list_final_warnings():
            options.warn(text)
    wall_ns = time.monotonic_ns() - collector.started
    if not any(process.tallies for process in processes):  # the program did nothing but tune
        for process in processes:
            process.tallies, process.trials = process.trials, {}
    if interrupt and not any(process.tallies for process in processes):
        options.warn("no kernel times were read, so no profile was stored")
        raise interrupt
    if not any(process.tallies for process in processes) and collector.timed_out:
        # Kernels may have run: their times arrive in batches.
        raise ProgramTimedOut(
            f"no kernel times of {spec.command[0]} were read within {options.timeout_s:g} s; it was stopped",
            hint="use a larger --timeout, or none",
        )
    _check_times(processes, collector)
    for text in _describe_missing(processes):
        options.warn(text)
    if collector.timed_out:
        options.warn(
            f"the program was stopped after {options.timeout_s:g} s; the profile holds what ran until then"
        )
    elif interrupt is None and collector.program.exit_code != 0:
        end = collector.program.describe_end()
        killed = collector.program.exit_signal is not None
        unsent = _describe_unsent(processes) if killed else ""
        options.warn(f"the program {end}; the profile holds what ran until then{unsent}")
        if killed:
            options.on_killed()
    profile = _make_profile(processes, collector, wall_ns)
    options.on_made(profile)
    with store.begin_transaction() as transaction:
        digest = transaction.publish(dump(profile), "profile", [])
    if interrupt:
        options.warn(f"profile {digest.short} holds what ran until then")
        raise interrupt
    return digest, profile


def _gather(events: Iterator[object], into: list[ProcessProfile]) -> None:
    for event in events:
        if isinstance(event, ProcessProfile):
            into.append(event)


def _describe_unsent(processes: list[ProcessProfile]) -> str:
    """Say which kernel times a killed program had not sent yet."""
    if any(process.backend is Backend.CUDA for process in processes):
        return ", except kernels of its last tenth of a second: their times had not been sent"
    return ", except kernels that it launched in its last millisecond without waiting for them"


def _check_times(processes: list[ProcessProfile], collector: Collector) -> None:
    """Raise the error that explains a run without any kernel times."""
    program = collector.program
    if any(process.tallies for process in processes):
        return
    for process in processes:
        if process.failure is not None:
            code, reason = process.failure
            kind = Refused if code is FailureCode.REFUSED else DeviceError
            raise kind(f"no profile was made: {reason}")
    how = program.describe_end()
    dispatches = sum(process.dispatches for process in processes)
    if dispatches and program.exit_code != 0:
        # Times are read shortly after the device is done: a program that fails may end before that.
        raise ProgramError(
            f"{program.spec.command[0]} {how} before the times of its dispatches ({dispatches:,}) were read",
            hint="profile a run that ends by itself",
        )
    if program.exit_code != 0:
        raise ProgramError(
            f"{program.spec.command[0]} {how} before any kernel times were read",
            hint=(None if processes else explain_no_driver(program.spec))
            or "run it without kc-profile first",
        )
    if not processes:
        raise explain_no_gpu(program, collector.left_behind)
    raise AnswerIsNo(
        f"{program.spec.command[0]} {how} without running a kernel",
        hint="check for failed launches, and that its kernels were built for this GPU (--offload-arch)",
    )


def _describe_missing(processes: list[ProcessProfile]) -> Iterator[str]:
    for process in processes:
        who, unseen = f"process {process.process_id}", process.uninterceptable_queues
        if process.untimed:
            of_all = f"{process.untimed:,} of {process.dispatches:,} dispatches"
            yield f"{who}: {of_all} have no time and are not in the table"
        if unseen:
            yield f"{who}: {count(unseen, 'queue')} could not be watched; their kernels are not in the table"
        if process.lost:
            yield f"{who}: {LOST}; later kernels are not in the table"


def _make_profile(processes: list[ProcessProfile], collector: Collector, wall_ns: int) -> Profile:
    tallies: dict[tuple[str | None, str], Tally] = {}
    code_times: dict[CodeKey, tuple[int, int]] = {}
    for process in processes:
        for key, (calls, total_ns) in process.code_times.items():
            had = code_times.get(key, (0, 0))
            code_times[key] = (had[0] + calls, had[1] + total_ns)
        for name, tally in process.tallies.items():
            tallies.setdefault(name, Tally()).merge(tally)
    trials = [tally for process in processes for tally in process.trials.values()]
    used = [process for process in processes if process.tallies or process.trials]
    environment = used[0].facts.describe_environment(used[0].backend)
    software = any(device.software for device in environment.devices)
    return Profile(
        made_by=f"kerncap-stages {__version__}",
        environment=environment,
        program=collector.program.describe(),
        time_source=TimeSource.SOFTWARE_GPU if software else TimeSource.DEVICE,
        wall_ns=wall_ns,
        processes=len(used),
        trials=sum(tally.calls for tally in trials),
        trials_ns=sum(tally.total_ns for tally in trials),
        kernels=add_configurations(rank_kernels(tallies), collector.triton_configurations, code_times),
    )
