"""Runs a program and captures dispatches of its kernels."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kerncap_stages.collect.capture_builder import CaptureContext, Progress
from kerncap_stages.collect.capture_events import Captured, CaptureFailed, ProcessSummary, Warned
from kerncap_stages.collect.capture_session import CaptureSession
from kerncap_stages.collect.connection import Connection, LibrarySettings
from kerncap_stages.collect.no_capture import explain_no_capture
from kerncap_stages.collect.protocol import MAX_RULES, Mode, WelcomeFlag
from kerncap_stages.collect.selection import KernelRule
from kerncap_stages.collect.server import Collector
from kerncap_stages.errors import ProgramTimedOut, UsageError
from kerncap_stages.manifests.capture import Reach

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kerncap_stages.collect.program import ProgramSpec
    from kerncap_stages.digest import Digest
    from kerncap_stages.manifests.capture import Capture, Selection
    from kerncap_stages.store import Store


@dataclass(frozen=True)
class CaptureOptions:
    """Which dispatches are captured, and how."""

    selections: tuple[Selection, ...] = ()
    parents: tuple[Digest, ...] = ()
    with_post: bool = True
    reachable_only: bool = False
    hold: bool = False
    stop_after: bool = False
    wait_s: float = 60.0
    timeout_s: float | None = None
    memory_bytes: int = 512 << 20
    configuration: Mapping[str, str] = field(default_factory=dict)  # values that a Triton kernel must have
    with_trials: bool = False  # an autotuner's trials are dispatches as any other
    warn: Callable[[str], None] = field(default=lambda _text: None)
    progress: Callable[[int, int], None] = field(default=lambda _done, _total: None)
    # called if a signal from elsewhere ended the program before all requested dispatches were captured
    on_killed: Callable[[], None] = field(default=lambda: None)


def run_capture(store: Store, spec: ProgramSpec, options: CaptureOptions) -> Iterator[tuple[Digest, Capture]]:
    """Run a program and yield each capture as soon as it is in the store.

    Raises AnswerIsNo if no dispatch matched, Refused or DeviceError if one matched but could not be captured,
    ProgramError if the program failed before a dispatch matched.
    """
    if len(options.selections) > MAX_RULES:
        raise UsageError(f"one run captures at most {MAX_RULES} kernels", hint="use several runs")
    rules = [KernelRule.from_selection(selection) for selection in options.selections]
    settings = _make_settings(options, rules)
    context = CaptureContext(
        store=store,
        program=lambda: collector.program.describe(),
        find_triton=lambda code_object, transaction: collector.triton.find(code_object, transaction),
        find_rtc=lambda codes, transaction: collector.rtc.find(codes, transaction),
        read_triton_calls=lambda process_id: collector.triton.read_calls(process_id),
        find_configuration=lambda symbol, checksum: collector.triton.find_configuration(symbol, checksum),
        configuration=options.configuration,
        parents=options.parents,
        with_post=options.with_post,
        reach=Reach.REACHABLE if options.reachable_only else Reach.ALL,
    )

    def open_session(connection: Connection, put: Callable[[Any], None]) -> CaptureSession:
        return CaptureSession(connection, put, rules, context)

    collector = Collector(spec, settings, open_session, options.selections)
    captured = 0
    failures: list[CaptureFailed] = []
    processes: list[ProcessSummary] = []
    wanted = sum(selection.count for selection in options.selections)
    try:
        for event in collector.read_events(options.timeout_s):
            match event:
                case Captured():
                    captured += 1
                    yield event.digest, event.manifest
                    if options.stop_after and captured >= wanted:
                        collector.stop_program()
                case Progress():
                    options.progress(event.done_bytes, event.total_bytes)
                case CaptureFailed():
                    failures.append(event)
                    options.warn(f"process {event.process_id}: a capture failed: {event.reason}")
                case Warned():
                    options.warn(f"process {event.process_id}: {event.text}")
                case ProcessSummary():
                    processes.append(event)
                    for why in event.explain_unseen():
                        options.warn(f"process {event.process_id}: {why}")
    except KeyboardInterrupt:
        options.warn(f"interrupted: the program is stopped; captures made: {captured}")
        raise
    finally:
        collector.close()
        for text in collector.list_final_warnings():
            options.warn(text)
    if captured == 0 and not failures and collector.timed_out:
        raise ProgramTimedOut(
            f"{spec.command[0]} did not dispatch the kernel within {options.timeout_s:g} s and was stopped",
            hint="use a larger --timeout, or none",
        )
    if captured == 0:
        raise explain_no_capture(
            options.selections, collector.program, failures, processes, collector.left_behind
        )
    if len({process.process_id for process in processes}) <= 1 and captured < wanted:
        options.warn(f"captured {captured} of the {wanted} requested {_name_wanted(options)}")
    _tell_end(options, collector, is_whole=captured >= wanted)


def _name_wanted(options: CaptureOptions) -> str:
    return "launch shapes" if all(each.by_case for each in options.selections) else "dispatches"


def _make_settings(options: CaptureOptions, rules: list[KernelRule]) -> LibrarySettings:
    flags = (
        (0 if options.with_post else WelcomeFlag.NO_POST)
        | (WelcomeFlag.REACHABLE if options.reachable_only else 0)
        | (WelcomeFlag.HOLD if options.hold else 0)
        | (WelcomeFlag.CHECKSUMS if options.configuration else 0)
    )
    return LibrarySettings(
        Mode.CAPTURE,
        rules=[rule.rule for rule in rules],
        flags=flags,
        wait_ms=int(options.wait_s * 1000),
        memory_bytes=options.memory_bytes,
        with_trials=options.with_trials,
    )


def _tell_end(options: CaptureOptions, collector: Collector, *, is_whole: bool) -> None:
    """Say how the program ended if it did not end well.

    is_whole: whether all requested dispatches were captured.
    """
    if collector.timed_out:
        options.warn(f"the program was stopped after {options.timeout_s:g} s")
    elif not options.stop_after and collector.program.exit_code != 0:
        when = (
            "after the capture; the capture is complete"
            if is_whole
            else "before all requested dispatches were captured; what was captured is complete"
        )
        options.warn(f"the program {collector.program.describe_end()} {when}")
        if collector.program.exit_signal is not None and not is_whole:
            options.on_killed()
