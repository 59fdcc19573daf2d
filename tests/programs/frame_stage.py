"""A stage that does to its frame whatever a test asks for."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

from kerncap_stages import errors
from kerncap_stages.cli.console import emit, make_epilog, run, say
from kerncap_stages.cli.inputs import read_artifact_texts
from kerncap_stages.cli.options import (
    ArtifactArguments,
    JsonOption,
    StoreOption,
    VersionOption,
    make_stage_app,
)
from kerncap_stages.digest import Digest

app = make_stage_app()


@app.command(epilog=make_epilog("frame_stage @capture"))
def frame_stage(
    artifacts: ArtifactArguments = None,
    store: StoreOption = None,  # noqa: ARG001
    json: JsonOption = False,  # noqa: ARG001
    version: VersionOption = False,  # noqa: ARG001
    act: str = "echo",
) -> None:
    """Do what was asked."""
    if act == "echo":
        for text in read_artifact_texts(artifacts):
            say(f"got {text}")
            emit(Digest(text * 64))
    elif act == "digests":
        while True:
            emit(Digest("a" * 64))
    elif act == "interrupt":
        signal.raise_signal(signal.SIGINT)
        time.sleep(60)
    elif act == "lost interrupt":
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise ValueError("as pydantic makes of it") from None
    elif act == "child":
        emit(Digest(f"{subprocess.run(['sh', '-c', 'exit 7'], check=False).returncode:064x}"))
    elif act == "system":
        Path("/nowhere/file").read_bytes()
    elif act == "bug":
        raise ZeroDivisionError("one / none\x1b[31m")
    else:
        raise getattr(errors, act)("capture 0123: it\nwent \x1b[31mwrong", hint="do this")


if __name__ == "__main__":
    sys.argv[0] = "kc-test"
    run(app)
