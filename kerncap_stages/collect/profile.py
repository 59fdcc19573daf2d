"""Times every dispatch of a program that it runs, and ranks its kernels."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kerncap_stages import __version__
from kerncap_stages.collect.capture_events import LOST
from kerncap_stages.collect.connection import Settings
from kerncap_stages.collect.no_driver import why_no_cuda
from kerncap_stages.collect.profile_session import ProcessProfile, ProfileSession
from kerncap_stages.collect.protocol import FailureCode, Mode
from kerncap_stages.collect.ranking import ranked
from kerncap_stages.collect.server import Collector
from kerncap_stages.collect.statistics import Tally
from kerncap_stages.errors import AnswerIsNo, DeviceError, ProgramError, ProgramTimedOut, Refused
from kerncap_stages.manifests import dump
from kerncap_stages.manifests.environment import Backend
from kerncap_stages.manifests.profile import Profile
from kerncap_stages.manifests.timing import TimeSource
from kerncap_stages.text.formats import count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kerncap_stages.collect.program import ProgramSpec, RunningProgram
    from kerncap_stages.digest import Digest
    from kerncap_stages.store import Store


@dataclass(frozen=True)
class ProfileOptions:
    """How the program is run."""

    timeout_s: float | None = None
    warn: Callable[[str], None] = field(default=lambda _text: None)
    made: Callable[[Profile], None] = field(default=lambda _profile: None)  # called before it is stored
    killed: Callable[[], None] = field(default=lambda: None)  # a signal, not ours, ended the program


def run_profile(
    store: Store, spec: ProgramSpec, options: ProfileOptions | None = None
) -> tuple[Digest, Profile]:
    """Run a program, time every dispatch, publish the profile.

    Raises AnswerIsNo if nothing ran on a GPU, ProgramError if the program failed before anything did,
    StoreError, before the program is run if that can be known. On KeyboardInterrupt the program is ended, and
    what ran until then is published before it is raised again.
    """
    options = options or ProfileOptions()
    with store.transaction():
        pass  # it can be written: the program may run for hours
    collector = Collector(spec, Settings(Mode.PROFILE), ProfileSession)
    processes: list[ProcessProfile] = []
    interrupt: KeyboardInterrupt | None = None
    try:
        _gather(collector.events(options.timeout_s), processes)
    except KeyboardInterrupt as stop:
        interrupt = stop
        options.warn("interrupted: the program is being ended; a second interrupt loses its profile")
        collector.stop_program()
        _gather(collector.events(), processes)
    finally:
        collector.close()
        for text in collector.afterwards():
            options.warn(text)
    wall_ns = time.monotonic_ns() - collector.started
    if interrupt and not any(process.tallies for process in processes):
        options.warn("no time of a kernel was read: nothing is kept")
        raise interrupt
    if not any(process.tallies for process in processes) and collector.timed_out:
        # Kernels may have run: their times come in portions.
        raise ProgramTimedOut(
            f"{spec.command[0]} gave no time of a kernel within {options.timeout_s:g} s, and was ended",
            hint="a larger --timeout, or none",
        )
    _check(processes, collector.program)
    for text in _what_is_missing(processes):
        options.warn(text)
    if collector.timed_out:
        options.warn(
            f"the program was ended after {options.timeout_s:g} s; the profile holds what ran until then"
        )
    elif interrupt is None and collector.program.exit_code != 0:
        end = collector.program.describe_end()
        killed = collector.program.exit_signal is not None
        unsent = _what_may_be_unsent(processes) if killed else ""
        options.warn(f"the program {end}; the profile holds what ran until then{unsent}")
        if killed:
            options.killed()
    profile = _manifest(processes, collector.program, wall_ns)
    options.made(profile)
    with store.transaction() as transaction:
        digest = transaction.publish(dump(profile), "profile", [])
    if interrupt:
        options.warn(f"profile {digest.short} holds what ran until then")
        raise interrupt
    return digest, profile


def _gather(events: Iterator[object], into: list[ProcessProfile]) -> None:
    for event in events:
        if isinstance(event, ProcessProfile):
            into.append(event)


def _what_may_be_unsent(processes: list[ProcessProfile]) -> str:
    """Say which times a program that was killed keeps to itself."""
    if any(process.backend is Backend.CUDA for process in processes):
        return ", less kernels of its last tenth of a second, whose times were not sent yet"
    return ", less kernels of its last millisecond that it had not waited for"


def _check(processes: list[ProcessProfile], program: RunningProgram) -> None:
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
        # They are read a moment after the device is done, and a program that fails has no last moment.
        raise ProgramError(
            f"{program.spec.command[0]} {how} before the times of its dispatches ({dispatches:,}) were read",
            hint="profile a run that ends by itself",
        )
    if program.exit_code != 0:
        raise ProgramError(
            f"{program.spec.command[0]} {how} before the time of a kernel was read",
            hint=(None if processes else why_no_cuda(program.spec)) or "run it without kc-profile first",
        )
    if not processes:
        raise AnswerIsNo(
            f"{program.spec.command[0]} {how} and never used a GPU",
            hint=why_no_cuda(program.spec)
            or "check that the program runs on the GPU: `rocminfo` or `nvidia-smi` must list one",
        )
    raise AnswerIsNo(
        f"{program.spec.command[0]} {how} without running a kernel",
        hint="look for failed launches, and whether its kernels were built for this GPU (--offload-arch)",
    )


def _what_is_missing(processes: list[ProcessProfile]) -> Iterator[str]:
    for process in processes:
        who, unseen = f"process {process.process_id}", process.uninterceptable_queues
        if process.untimed:
            of_all = f"{process.untimed:,} of {process.dispatches:,} dispatches"
            yield f"{who}: {of_all} have no time and are not in the table"
        if unseen:
            yield f"{who}: {count(unseen, 'queue')} not watched: what ran there is not in the table"
        if process.lost:
            yield f"{who}: {LOST}: what ran since then is not in the table"


def _manifest(processes: list[ProcessProfile], program: RunningProgram, wall_ns: int) -> Profile:
    tallies: dict[tuple[str | None, str], Tally] = {}
    for process in processes:
        for name, tally in process.tallies.items():
            tallies.setdefault(name, Tally()).merge(tally)
    used = [process for process in processes if process.tallies]
    environment = used[0].facts.environment(used[0].backend)
    software = any(device.software for device in environment.devices)
    return Profile(
        made_by=f"kerncap-stages {__version__}",
        environment=environment,
        program=program.manifest(),
        time_source=TimeSource.SOFTWARE_GPU if software else TimeSource.DEVICE,
        wall_ns=wall_ns,
        processes=len(used),
        kernels=ranked(tallies),
    )
