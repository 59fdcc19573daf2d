"""Ends what a study has started, when it is interrupted."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36  # of prctl(2): processes whose parents have ended become this one's children
PATIENCE_S = 5.0  # then a process that was asked to end is killed


def adopt_orphans() -> None:
    """Become the parent of what children leave behind, such as cmake's ninja."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def reap() -> None:
    """Wait for all children, also for adopted ones. Their time counts as this process's children's."""
    try:
        while True:
            os.wait()
    except ChildProcessError:
        return


def end_children() -> None:
    """End all processes below this one: ask them, then kill those that stay. Further Ctrl-C are ignored.

    The terminal's SIGINT does not reach all of them: timeout(1) starts a process group of its own.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asked: set[int] = set()
    began = time.monotonic()
    while below := _list_below():
        late = time.monotonic() - began > PATIENCE_S
        for pid in below if late else below - asked:
            try:
                os.kill(pid, signal.SIGKILL if late else signal.SIGTERM)
            except ProcessLookupError:
                continue
        asked |= below
        _reap_ended()
        time.sleep(0.02)
    _reap_ended()


def _reap_ended() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass
    except ChildProcessError:
        return


def _list_below() -> set[int]:
    """List the processes that descend from this one, and have not ended."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
        except OSError:  # it has just ended
            continue
        if state not in ("Z", "X"):
            parents[int(folder.name)] = int(parent)
    below: set[int] = set()
    level = {os.getpid()}
    while level:
        level = {pid for pid, parent in parents.items() if parent in level}
        below |= level
    return below
