"""Runs a reference in a process of its own, with a time limit, and reads the outputs that it computed."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kerncap_stages.errors import DeviceError, UsageError
from kerncap_stages.machine.temporary import TemporaryFolder
from kerncap_stages.text.terminal import make_printable
from kerncap_stages.validate.precision.child import JOB, RESULT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from kerncap_stages.digest import MemoryRef
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.store import Store
    from kerncap_stages.validate.precision.file import ReferenceFile
    from kerncap_stages.validate.precision.given import Given

_COMMAND = (sys.executable, "-P", "-m", "kerncap_stages.validate.precision.child")
_PIECE_BYTES = 1 << 16
_KEPT_BYTES = 2000  # of what the reference prints
_REST_S = 1.0  # a child of it may keep its output open
_CORRECT = "correct the file; `kc-validate --baseline --reference FILE` tries it without a variant"


@dataclass(frozen=True)
class TrueOutput:
    """What the reference computed for an argument. ``values``: fp64 or longdouble, of any shape."""

    given: Given
    values: npt.NDArray[Any]


class _Printed:
    """Reads what a process prints, keeps its end, and drops the rest."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe
        self._kept = b""
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def finish(self) -> str:
        """Return the last lines, for people."""
        self._thread.join(_REST_S)
        lines = self._kept.decode(errors="replace").strip().splitlines()[-5:]
        return make_printable("\n".join(lines), keep_lines=True)

    def _read(self) -> None:
        with os.fdopen(self._pipe, "rb", buffering=0) as pipe:
            while piece := pipe.read(_PIECE_BYTES):
                self._kept = (self._kept + piece)[-_KEPT_BYTES:]


def run_reference(
    store: Store,
    reference: ReferenceFile,
    capture: Capture,
    given: Sequence[Given],
    pre_states: Mapping[int, MemoryRef],
    timeout_s: float,
    state: str,
) -> list[TrueOutput]:
    """Run the reference from a state. ``state``: its name, for messages.

    Raises UsageError, with the file and the line, if the user's file fails, gives no outputs, or does not end
    in time; DeviceError if the process cannot be started.
    """
    job = {
        "name": reference.name,
        "text": reference.text,
        "store": str(store.root),
        "arguments": [each.describe(pre_states) for each in given],
        "grid_blocks": list(capture.launch.grid_blocks),
        "block_work_items": list(capture.launch.block_work_items),
    }
    with TemporaryFolder("reference") as name:
        folder = Path(name)
        (folder / JOB).write_text(json.dumps(job))
        code, printed = _run_process(folder, timeout_s)
        beside = f"; it printed last:\n{printed}" if printed else ""
        if code is None:
            raise UsageError(
                f"{reference.name}: `reference` did not end within {timeout_s:g} s, {state}{beside}",
                hint="make it faster, or give it more time: --timeout SECONDS",
            )
        try:
            result = json.loads((folder / RESULT).read_bytes())
        except OSError as error:
            how = f"was killed by signal {-code}" if code < 0 else f"exited with code {code}"
            raise UsageError(
                f"{reference.name}: its process {how} before it gave outputs, {state}{beside}", hint=_CORRECT
            ) from error
        if (wrong := result.get("error")) is not None:
            where = reference.name if wrong["line"] is None else f"{reference.name}:{wrong['line']}"
            what = make_printable(wrong["text"])
            raise UsageError(f"{where}: {what}, {state}{beside}", hint=_CORRECT)
        return [
            TrueOutput(given[each["place"]], np.load(folder / each["file"], allow_pickle=False))
            for each in result["outputs"]
        ]


def _run_process(folder: Path, timeout_s: float) -> tuple[int | None, str]:
    """Run the process to its end; returns its exit code, None at the time limit, and what it printed last."""
    ours, theirs = os.pipe()
    try:
        process = subprocess.Popen(
            [*_COMMAND, str(folder), str(os.getpid())],
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
    except OSError as error:
        os.close(ours)
        raise DeviceError(f"cannot start Python for --reference: {error}") from error
    finally:
        os.close(theirs)
    printed = _Printed(ours)
    try:
        code = _wait(process, timeout_s)
    finally:
        # Also what it has started: nothing of the reference outlives its run.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return code, printed.finish()


def _wait(process: subprocess.Popen[bytes], timeout_s: float) -> int | None:
    """Wait without reaping: until then its group's number is not given to another process."""
    try:
        ends = os.pidfd_open(process.pid)
    except OSError:  # Linux before 5.3, or too many open files
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(timeout_s)
        return None
    try:
        poll = select.poll()
        poll.register(ends, select.POLLIN)
        if not poll.poll(1000 * timeout_s):
            return None
    finally:
        os.close(ends)
    status = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    if status is None:
        return None
    return status.si_status if status.si_code == os.CLD_EXITED else -status.si_status
