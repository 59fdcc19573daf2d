"""Why a run gave no capture: the error with its exit code, in words that say what to do."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from kerncap_stages.collect.capture_events import LOST
from kerncap_stages.collect.no_driver import why_no_cuda
from kerncap_stages.collect.protocol import FailureCode
from kerncap_stages.collect.selection import KernelRule, close_names
from kerncap_stages.errors import AnswerIsNo, DeviceError, KerncapError, ProgramError, Refused
from kerncap_stages.manifests.environment import Backend
from kerncap_stages.text.formats import count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kerncap_stages.collect.capture_events import CaptureFailed, ProcessSummary
    from kerncap_stages.collect.program import RunningProgram
    from kerncap_stages.manifests.capture import Selection


_WITHOUT_POST = "`kc-capture --no-post` keeps what was there before it, to be replayed alone"
_HOLD = "`--hold` keeps it waiting until all is stored"
_AFTER_A_TIMEOUT = (
    "`--wait` allows longer waits; none is enough where a kernel waits for what comes behind the dispatch; "
    f"of a kernel that never ends, {_WITHOUT_POST}"
)

# Where the reason itself does not say what to do.
_OF_A_GRAPH = (
    "take a dispatch of it that is launched outside of a graph (`--dispatch N`; many programs can be told "
    "to use none), or one of another graph: docs/cuda.md says which can be gone through twice"
)
_REFUSED = "if another dispatch of the kernel would do: `--dispatch N`"


def why_none(
    selections: Sequence[Selection],
    program: RunningProgram,
    failures: Sequence[CaptureFailed],
    processes: Sequence[ProcessSummary],
) -> KerncapError:
    """Return the error to raise when a run is over and nothing was captured."""
    if failures:
        return _why_failed(program, failures[-1])
    if any(process.lost for process in processes):
        return ProgramError(
            f"no capture was made of {program.spec.command[0]}: {LOST}",
            hint="daemons close what they did not open: many have an option to stay in the foreground",
        )
    if program.exit_code != 0:
        return ProgramError(
            f"{program.spec.command[0]} {program.describe_end()} before the kernel was captured",
            hint=(None if processes else why_no_cuda(program.spec)) or "run it without kc-capture first",
        )
    if not processes:
        return AnswerIsNo(
            f"{program.spec.command[0]} never used a GPU",
            hint=why_no_cuda(program.spec)
            or "check that the program runs on the GPU: `rocminfo` or `nvidia-smi` must list one",
        )
    return _why_not_dispatched(selections, program, processes)


def _why_failed(program: RunningProgram, last: CaptureFailed) -> KerncapError:
    """Why the capture that was begun last was not made."""
    what = program.spec.command[0]
    if isinstance(last.error, KerncapError):
        return type(last.error)(f"no capture was made: {last.error}", hint=last.error.hint)
    if last.process_ended and program.exit_code != 0:
        return ProgramError(
            f"{what} {program.describe_end()} in the middle of a capture, of which nothing was kept",
            hint="if it does so without kc-capture, too, and the kernel is the cause: "
            f"{_WITHOUT_POST}; if it ends itself right behind: {_HOLD}",
        )
    if last.process_ended:
        return ProgramError(
            f"{what} ended in the middle of a capture, of which nothing was kept",
            hint=_HOLD,
        )
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
    if program.ended() and program.exit_code != 0:
        text += f"; {what} {program.describe_end()}"
    return kind(text, hint=hint)


def _why_not_dispatched(
    selections: Sequence[Selection], program: RunningProgram, processes: Sequence[ProcessSummary]
) -> KerncapError:
    """Why no dispatch of a program that used a GPU was a wanted one."""
    what = program.spec.command[0]
    names = {name for process in processes for name in process.kernels}
    matched = sum(number for process in processes for number in process.matched)
    pattern = selections[0].pattern or ""
    if matched:
        return AnswerIsNo(
            f"{what} dispatched what matches {pattern!r} {count(matched, 'time')}, and none was number "
            f"{selections[0].dispatch}",
            hint="numbers count from 0; leave `--dispatch` out for the first",
        )
    other_shapes = [shape for process in processes for shape in process.other_shapes]
    if other_shapes:
        grid, block = (",".join(map(str, size)) for size in other_shapes[-1])
        return AnswerIsNo(
            f"{what} dispatched what matches {pattern!r}, but never in the shape that `--grid-blocks` and "
            f"`--block` ask for; one of its own is {grid} work-groups of {block}",
            hint=f"--grid-blocks {grid} --block {block}; `kc-show` of a profile lists each kernel's shapes",
        )
    close = close_names(pattern, names)
    hint = "kernels that were loaded and come close: " + ", ".join(close) if close else None
    text = f"{what} never dispatched a kernel that matches {pattern!r} ({_loaded(len(names))} loaded)"
    wanted = KernelRule.of(selections[0])
    if any(
        wanted.wants(name, name)
        for process in processes
        for name in process.kernels
        if process.backend == Backend.CUDA
    ):
        text += (
            "; one was loaded: what kernels launch on the device, kernels or whole graphs, "
            "is not seen and cannot be captured"
        )
    unlisted = sum(process.unlisted for process in processes)
    if unlisted:
        text += (
            "; kernels that no loaded code object lists have no names and cannot be captured; "
            f"it dispatched such kernels {count(unlisted, 'time')}"
        )
    return AnswerIsNo(
        text,
        hint=hint
        or f"`{shlex.join(['kc-profile', '--', *program.spec.command])}` lists the kernels that run",
    )


def _loaded(kernels: int) -> str:
    return "1 kernel was" if kernels == 1 else f"{kernels:,} kernels were"
