"""The process that does one call of a tool of kerncap-mcp.

It reads one line of JSON, ``{"tool": NAME, "arguments": {...}}``. It writes ``{"done", "total", "about"}``
lines while it works, and at the end ``{"result": {...}}`` or ``{"error": TEXT, "hint": TEXT or null}``. If
its input ends before that, nobody waits for the answer any more. The process then acts as on Ctrl-C, and ends
the program that it runs.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import traceback
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from kerncap_stages.compat.client import Kerncap
from kerncap_stages.compat.plain_json import replace_non_finite
from kerncap_stages.errors import KerncapError, UsageError
from kerncap_stages.manifests import load
from kerncap_stages.project.artifacts import find_project
from kerncap_stages.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable

    from kerncap_stages.compat.steps import Step

    Report = Callable[[int, int, str], None]

_STEPS = 5  # of an extraction


def profile_kernels(report: Report, cmd: list[str], output_path: str | None) -> dict[str, Any]:
    """See ``mcp_server.profile_kernels``."""
    if not cmd:
        raise UsageError("the command is empty", hint='cmd is a list: ["./app", "--size", "512"]')
    report(0, 1, f"profiling {cmd[0]}")
    notes: list[str] = []
    kernels = Kerncap().profile(cmd, output_path, warn=notes.append)
    return {"kernels": [asdict(kernel) for kernel in kernels], "notes": notes}


def extract_kernel(report: Report, kernel_name: str, cmd: str, **options: Any) -> dict[str, Any]:
    """See ``mcp_server.extract_kernel``."""
    done = 0

    def report_step(step: Step) -> None:
        nonlocal done
        done += 1
        report(done, _STEPS, f"{step.name}: {step.summary}")

    report(0, _STEPS, f"running {cmd}")
    return asdict(Kerncap().extract(kernel_name, cmd, on_step=report_step, **options))


def validate_reproducer(report: Report, reproducer_dir: str, **options: Any) -> dict[str, Any]:
    """See ``mcp_server.validate_reproducer``."""
    report(0, 1, f"validating {reproducer_dir}")
    result = Kerncap().validate(reproducer_dir, **options)
    return {**asdict(result), "result_line": result.result_line}


def replay_reproducer(report: Report, reproducer_dir: str, **options: Any) -> dict[str, Any]:
    """See ``mcp_server.replay_reproducer``."""
    report(0, 1, f"replaying {reproducer_dir}")
    return asdict(Kerncap().replay(reproducer_dir, **options))


def show_artifact(_report: Report, artifact: str) -> dict[str, Any]:
    """See ``mcp_server.show_artifact``."""
    project = find_project(artifact)
    store = Store.open(None if project is None else project.store, create=False)
    digest = store.resolve(artifact) if project is None else project.reproducer
    return {"digest": str(digest), "manifest": load(store, digest).model_dump(mode="json")}


TOOLS = (profile_kernels, extract_kernel, validate_reproducer, replay_reproducer, show_artifact)


def main() -> None:
    """Do one call."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # even if a shell had SIGINT ignored
    # The program's output must not mix with the lines of the answer.
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers:
        os.dup2(2, 1)

        def answer(message: dict[str, Any]) -> None:
            print(json.dumps(replace_non_finite(message), allow_nan=False), file=answers, flush=True)

        def finish(message: dict[str, Any]) -> None:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # the end of the input no longer interrupts
            answer(message)

        def report(done: int, total: int, about: str) -> None:
            answer({"done": done, "total": total, "about": about})

        request = json.loads(sys.stdin.buffer.readline())
        threading.Thread(target=_interrupt_at_end_of_input, daemon=True).start()
        tool = next(tool for tool in TOOLS if tool.__name__ == request["tool"])
        try:
            finish({"result": tool(report, **request["arguments"])})
        except KerncapError as error:
            finish({"error": str(error), "hint": error.hint})
        except OSError as error:
            finish({"error": str(error), "hint": None})
        except Exception as error:
            traceback.print_exc()
            text = f"{type(error).__name__}: {error}"
            finish({"error": text, "hint": "this is a bug of kerncap-stages: report it"})


def _interrupt_at_end_of_input() -> None:
    while os.read(0, 1 << 16):
        pass
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
