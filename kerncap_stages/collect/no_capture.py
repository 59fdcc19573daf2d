"""Explains why a run made no capture: the error, and a hint that says what to do."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from kerncap_stages.collect.capture_events import LOST
from kerncap_stages.collect.left_behind import IN_FOREGROUND, name_left_behind
from kerncap_stages.collect.no_driver import explain_no_driver
from kerncap_stages.collect.protocol import FailureCode
from kerncap_stages.collect.selection import KernelRule, find_close_names
from kerncap_stages.errors import AnswerIsNo, DeviceError, KerncapError, ProgramError, Refused
from kerncap_stages.manifests.environment import Backend
from kerncap_stages.text.formats import count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kerncap_stages.collect.capture_events import CaptureFailed, ProcessSummary
    from kerncap_stages.collect.left_behind import LeftBehind
    from kerncap_stages.collect.program import RunningProgram
    from kerncap_stages.manifests.capture import Selection


_WITHOUT_POST = "`kc-capture --no-post` captures the memory from before the kernel, which can be replayed"
_AFTER_A_TIMEOUT = (
    "`--wait` allows longer waits; no wait is long enough where a kernel waits for work submitted after it; "
    f"for a kernel that never ends, {_WITHOUT_POST}"
)

# Hints for failures whose reason does not say what to do.
_OF_A_GRAPH = (
    "capture a dispatch of the kernel outside of a graph (`--dispatch N`; many programs have an option that "
    "turns graphs off), or in another graph: docs/cuda.md says which graphs can be captured"
)
_CONFIGURATIONS = 8  # that a message lists
_NO_DAEMON = "daemons close files that they did not open; many have an option to stay in the foreground"
_REFUSED = "to capture another dispatch of the kernel: `--dispatch N`"


def explain_no_capture(
    selections: Sequence[Selection],
    program: RunningProgram,
    failures: Sequence[CaptureFailed],
    processes: Sequence[ProcessSummary],
    left_behind: Sequence[LeftBehind] = (),
) -> KerncapError:
    """Return the error to raise after a run that captured nothing.

    left_behind: processes that went on after the program's end.
    """
    if failures:
        return _explain_failure(program, failures[-1], processes)
    if any(process.lost for process in processes):
        return ProgramError(f"no capture was made of {program.spec.command[0]}: {LOST}", hint=_NO_DAEMON)
    if program.exit_code != 0:
        return ProgramError(
            f"{program.spec.command[0]} {program.describe_end()} before the kernel was captured",
            hint=(None if processes else explain_no_driver(program.spec)) or "run the program alone first",
        )
    if not processes:
        return explain_no_gpu(program, left_behind)
    return _explain_no_dispatch(selections, program, processes)


def explain_no_gpu(program: RunningProgram, left_behind: Sequence[LeftBehind]) -> AnswerIsNo:
    """Return the error for a program that ended well and used no GPU.

    left_behind: processes that it left running; they have used no GPU either.
    """
    how = f"{program.spec.command[0]} {program.describe_end()}"
    if left_behind:
        return AnswerIsNo(
            f"{how} and left running: {name_left_behind(left_behind)}; no GPU was used until then",
            hint=IN_FOREGROUND,
        )
    return AnswerIsNo(
        f"{how} and never used a GPU",
        hint=explain_no_driver(program.spec)
        or "check that the program runs on the GPU: `rocminfo` or `nvidia-smi` must list one",
    )


def _how_to_wait(processes: Sequence[ProcessSummary]) -> str:
    """Return the hint for a program that ended before a capture did."""
    if any(process.backend == Backend.CUDA for process in processes):
        return "`--hold` keeps the program waiting until the capture is stored"
    return "the program has to wait for its kernel before it ends, as hipDeviceSynchronize() does"


def _explain_failure(
    program: RunningProgram, last: CaptureFailed, processes: Sequence[ProcessSummary]
) -> KerncapError:
    """Return the error for the last capture that failed."""
    what = program.spec.command[0]
    if isinstance(last.error, KerncapError):
        return type(last.error)(f"no capture was made: {last.error}", hint=last.error.hint)
    if last.process_ended and program.exit_code != 0:
        return ProgramError(
            f"{what} {program.describe_end()} in the middle of a capture; nothing of the capture was stored",
            hint=f"if it also does so without kc-capture, and the kernel is the cause: {_WITHOUT_POST}; "
            f"if the program ends itself right after the kernel: {_how_to_wait(processes)}",
        )
    if last.process_ended:
        return ProgramError(
            f"{what} ended in the middle of a capture; nothing of the capture was stored",
            hint=_how_to_wait(processes),
        )
    if last.lost:
        return ProgramError(f"no capture was made of {what}: {last.reason}", hint=_NO_DAEMON)
    refused = (
        FailureCode.UNSUPPORTED_MEMORY,
        FailureCode.UNSUPPORTED_QUEUE,
        FailureCode.TOO_LARGE_A_BATCH,
        FailureCode.REFUSED,
    )
    kind = Refused if last.code in refused else DeviceError
    hints = {
        FailureCode.TIMEOUT: _AFTER_A_TIMEOUT,
        FailureCode.DEVICE: f"if the kernel itself is the cause: {_WITHOUT_POST}",
        FailureCode.UNSUPPORTED_MEMORY: _OF_A_GRAPH if "CUDA graph" in last.reason else _REFUSED,
        FailureCode.TOO_LARGE_A_BATCH: _REFUSED,
    }
    hint = None if last.code is None else hints.get(last.code)
    text = f"no capture was made: {last.reason}"
    if program.has_ended() and program.exit_code != 0:
        text += f"; {what} {program.describe_end()}"
    return kind(text, hint=hint)


def _explain_no_dispatch(
    selections: Sequence[Selection], program: RunningProgram, processes: Sequence[ProcessSummary]
) -> KerncapError:
    """Return the error for a program that used a GPU but made no wanted dispatch."""
    what = program.spec.command[0]
    names = {name for process in processes for name in process.kernels}
    matched = sum(number for process in processes for number in process.matched)
    pattern = selections[0].pattern or ""
    if matched > selections[0].dispatch:
        return ProgramError(
            f"{what} dispatched the kernel, and ended before it ran", hint=_how_to_wait(processes)
        )
    if matched:
        return AnswerIsNo(
            f"{what} dispatched kernels that match {pattern!r} {count(matched, 'time')}; "
            f"`--dispatch {selections[0].dispatch}` needs {selections[0].dispatch + 1}",
            hint="numbers count from 0; without `--dispatch`, the first dispatch is captured",
        )
    if trials := sum(process.trials for process in processes):
        return AnswerIsNo(
            f"{what} dispatched kernels that match {pattern!r} only where an autotuner tried configurations, "
            f"{count(trials, 'time')}",
            hint="`--trials` captures such dispatches, too",
        )
    configurations = [each for process in processes for each in process.other_configurations]
    if configurations and not any(process.has_configuration for process in processes):
        named = list(dict.fromkeys(filter(None, configurations)))
        loaded = "; ".join(named[:_CONFIGURATIONS]) or "none that Triton compiled"
        return AnswerIsNo(
            f"{what} loaded kernels that match {pattern!r}, but none with the values of `--configuration`: "
            f"{loaded}{' ...' if len(named) > _CONFIGURATIONS else ''}",
            hint="`kc-show` of a profile lists the configurations of each kernel that ran",
        )
    other_shapes = [shape for process in processes for shape in process.other_shapes]
    if other_shapes and selections[0].cases:
        return AnswerIsNo(
            f"{what} dispatched kernels that match {pattern!r}, but in no shape that the profile has",
            hint="profile this run of the program, too, or leave out the profile",
        )
    if other_shapes:
        grid, block = (",".join(map(str, size)) for size in other_shapes[-1])
        return AnswerIsNo(
            f"{what} dispatched kernels that match {pattern!r}, but never in the shape of `--grid-blocks` "
            f"and `--block`; its latest shape was {grid} work-groups of {block}",
            hint=f"--grid-blocks {grid} --block {block}; `kc-show` of a profile lists each kernel's shapes",
        )
    close = find_close_names(pattern, names)
    hint = "loaded kernels with similar names: " + ", ".join(close) if close else None
    so = " and was compiled with the values of `--configuration`" if configurations else ""
    text = (
        f"{what} never dispatched a kernel that matches {pattern!r}{so} ({_count_loaded(len(names))} loaded)"
    )
    wanted = KernelRule.from_selection(selections[0])
    if any(
        wanted.wants(name, name)
        for process in processes
        for name in process.kernels
        if process.backend == Backend.CUDA
    ):
        text += (
            "; one was loaded, but kernels and graphs that other kernels launch on the device "
            "are not seen and cannot be captured"
        )
    unlisted = sum(process.unlisted for process in processes)
    if unlisted:
        text += (
            f"; it dispatched kernels that no loaded code object lists {count(unlisted, 'time')}; "
            "they have no names and cannot be captured"
        )
    return AnswerIsNo(
        text,
        hint=hint
        or f"`{shlex.join(['kc-profile', '--', *program.spec.command])}` lists the kernels that run",
    )


def _count_loaded(kernels: int) -> str:
    return "1 kernel was" if kernels == 1 else f"{kernels:,} kernels were"
