"""A worker's process: ``python -m kerncap_stages.evaluate.worker``, which the coordinator starts.

It reads tasks from standard input, and writes answers to standard output. It ends when its input ends, or
when the coordinator does.
"""

from __future__ import annotations

import contextlib
import ctypes
import signal
import sys

from kerncap_stages.errors import KerncapError
from kerncap_stages.machine.one_thread import import_numpy

_SET_DEATH_SIGNAL = 1  # prctl's PR_SET_PDEATHSIG


def main() -> int:
    """Run the worker."""
    # Ctrl-C is for the coordinator, which then ends its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
    import_numpy()
    from kerncap_stages.evaluate.answering import serve

    try:
        serve(sys.stdin.buffer, sys.stdout.buffer)
    except KerncapError as error:
        print(f"worker: {error}", file=sys.stderr)
        return int(error.exit_code)
    except BrokenPipeError:
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
