"""Run work in a child process, because it changes the process's mounts or root."""

from __future__ import annotations

import os
import pickle
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from kerncap_stages.errors import KerncapError
from kerncap_stages.rocm_root import namespaces

if TYPE_CHECKING:
    from collections.abc import Callable


def run_in_child(work: Callable[[], object], *, private: bool, session: bool = False) -> int:
    """Do ``work`` in a child process, with mounts of its own if ``private``; returns its exit status.

    session: in a session of its own, whose processes are killed on Ctrl-C: what they write is thrown away.
    If the child raises a KerncapError, it is raised here. ``work`` may replace the child by another program.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(reading)
            if session:
                os.setsid()
            if private:
                namespaces.enter_private_mounts()
            work()
            status = 0
        except KerncapError as error:
            os.write(writing, pickle.dumps((type(error), str(error), error.hint)))
        except Exception as error:
            print(f"kc-root: {error}", file=sys.stderr, flush=True)
        finally:
            os._exit(status)
    os.close(writing)
    try:
        with os.fdopen(reading, "rb") as stream:
            raised = stream.read()
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    except KeyboardInterrupt:
        if session:
            with suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)  # it must not write into what the caller deletes
        raise
    if raised:
        kind, message, hint = pickle.loads(raised)  # noqa: S301 - written by our own child, above
        raise kind(message, hint=hint)
    return status
