"""Running the stages as a user does: the installed executables, on the software GPU or on NVIDIA's."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import select
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from programs import in_rocm

from kerncap_stages.digest import Digest
from kerncap_stages.machine.softgpu import SoftGpu
from kerncap_stages.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType
    from typing import Self

TIMEOUT_S = 240
# How long a test waits for a program in the background: longer than two waits of the library, 20 s each.
BACKGROUND_LIMIT_S = 120
_INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def executable(stage: str) -> list[str]:
    """Words that run a stage: its installed executable, or its module where only that is importable."""
    beside = Path(sys.executable).with_name(f"kc-{stage}")
    installed = str(beside) if beside.exists() else shutil.which(f"kc-{stage}")
    if installed is not None:
        return [installed]
    return [sys.executable, "-c", f"from kerncap_stages.cli.commands.{stage} import main; main()"]


@dataclass
class Finished:
    """A stage that ended."""

    command: list[str]
    code: int
    out: str
    err: str

    @property
    def digests(self) -> list[str]:
        return self.out.split()

    @property
    def manifest(self) -> dict[str, Any]:
        """The one manifest that --json printed."""
        return json.loads(self.out)

    def must(self, code: int = 0) -> Finished:
        """Fail, with all that was said and the command to try it again, unless the exit code is that."""
        assert self.code == code, f"exit code {self.code}: {shlex.join(self.command)}\n{self.out}{self.err}"
        return self


class BackgroundStage:
    """A stage that runs while the test goes on. At the end of the ``with`` block it is continued, and ends.

    printed: what the program prints, if the stage runs one.
    out, err: what the stage printed, once it has ended.
    """

    def __init__(self, command: list[str], environment: Mapping[str, str], folder: Path) -> None:
        self.folder = folder
        self.printed = folder / "printed"
        self.out = self.err = ""
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=environment,
            cwd=folder,
            # A machine that runs the tests in the background may ignore these signals, and hand that on.
            preexec_fn=lambda: [signal.signal(number, signal.SIG_DFL) for number in _INTERRUPTS],
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, failed: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.send_signal(signal.SIGCONT if failed is None else signal.SIGKILL)
        self.out, self.err = self.process.communicate(timeout=BACKGROUND_LIMIT_S)

    @property
    def exit_code(self) -> int | None:
        return self.process.returncode

    def has_printed(self, text: str) -> bool:
        return self.printed.exists() and text in self.printed.read_text()

    def wait_until(self, look: Callable[[], Any]) -> Any:
        """Return what ``look`` returns, once that counts as true. The stage runs until then."""
        limit = time.monotonic() + BACKGROUND_LIMIT_S
        while not (found := look()):
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < limit
            time.sleep(0.005)
        return found

    def find_program(self, path: Path | str) -> int:
        """Return a descriptor of the process that was started as ``path``, once it runs."""
        return os.pidfd_open(self.wait_until(lambda: self._find_process(path)))

    def _find_process(self, path: Path | str) -> int | None:
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
                if os.fsencode(path) in words[:2] and (folder / "cwd").readlink() == self.folder:
                    return int(folder.name) if int(folder.name) != self.process.pid else None
            except OSError:
                continue
        return None


def ends(program: int, limit_s: int = BACKGROUND_LIMIT_S) -> bool:
    """Whether a program, of which this is a descriptor, ends in time. The descriptor is closed."""
    try:
        return bool(select.select([program], [], [], limit_s)[0])
    finally:
        os.close(program)


@dataclass
class Stages:
    """The stages on one store and one kind of GPU."""

    store: Path
    folder: Path
    target: str = "gfx90a"
    gpus: int = 1
    rocm: str = ""  # in a root of this version; else in ours
    variables: dict[str, str] = field(default_factory=dict)
    timeout_s: float = TIMEOUT_S

    @property
    def environment(self) -> dict[str, str]:
        is_real = self.target.startswith("sm_")
        gpu = {} if is_real else SoftGpu(target=self.target, gpus=self.gpus).make_environment()
        return {**os.environ, **gpu, "KERNCAP_STORE": str(self.store), **self.variables}

    def run(self, stage: str, *words: object, stdin: str | None = None, **variables: str) -> Finished:
        command = [*in_rocm(self.rocm), *executable(stage), *map(str, words)]
        done = subprocess.run(
            command,
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            env={**self.environment, **variables},
            cwd=self.folder,
            timeout=self.timeout_s,
            check=False,
        )
        return Finished(command, done.returncode, done.stdout, done.stderr)

    def start(self, stage: str, *words: object, **variables: str) -> BackgroundStage:
        """Start a stage that goes on while the test does. What its program prints goes to a file."""
        printed = ["--app-stdout", str(self.folder / "printed")]
        command = [*executable(stage), *printed, *map(str, words)]
        return BackgroundStage(command, {**self.environment, **variables}, self.folder)

    def shown(self, stage: str, *words: object) -> str:
        """What a stage, which must succeed, writes to a terminal as its standard error; without colours."""
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.shown_raw(stage, *words))

    def shown_raw(self, stage: str, *words: object) -> str:
        """The same with all that moves the cursor."""
        outer, inner = pty.openpty()
        process = subprocess.Popen(
            [*executable(stage), *map(str, words)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=inner,
            env={**self.environment, "TERM": "xterm", "COLUMNS": "100"},
            cwd=self.folder,
        )
        os.close(inner)
        shown = b""
        # The terminal's end is an error on Linux: the last one that had it open is gone.
        with contextlib.suppress(OSError):
            while part := os.read(outer, 65536):
                shown += part
        os.close(outer)
        text = shown.decode(errors="replace")
        assert process.wait(TIMEOUT_S) == 0, text
        return text

    def capture(
        self, kernel: str, program: Path, *words: object, options: tuple[object, ...] = ()
    ) -> list[str]:
        """Capture a kernel of a program; returns the digests."""
        done = self.run("capture", "--kernel", kernel, *options, "--", program, *words).must()
        assert "the program ended with" not in done.err, done.err  # as it does alone: with 0
        return done.digests

    def capture_and_listen(
        self, kernel: str, program: Path, *words: object, options: tuple[object, ...] = ()
    ) -> tuple[list[dict[str, Any]], str]:
        """Capture a kernel of a program; returns the manifests, and what the program printed."""
        printed = self.folder / "printed"
        found = self.capture(kernel, program, *words, options=("--app-stdout", printed, *options))
        return [self.show(digest) for digest in found], printed.read_text()

    def show(self, artifact: str) -> dict[str, Any]:
        """The manifest of an artifact."""
        store = Store.open(self.store)
        return json.loads(store.get(store.resolve(artifact)))

    def memory(self, reference: str) -> bytes:
        """The bytes that a ``memory:`` reference of a manifest names."""
        return bytes(Store.open(self.store).read_memory(reference.removeprefix("memory:")))

    def show_object(self, reference: str) -> dict[str, Any]:
        """An object that is a JSON document, by its typed reference: a memory is a list of chunks."""
        return json.loads(Store.open(self.store).get(Digest(reference.rpartition(":")[2])))

    def replay(self, artifact: str, *options: object) -> Finished:
        return self.run("replay", artifact, "--json", *options)

    def chain(self, app: Path) -> dict[str, Any]:
        """Profile, capture and replay an app, connected by pipes; the manifest of the replay."""
        processes: list[subprocess.Popen[str]] = []
        for command in (
            [*executable("profile"), "--", str(app)],
            executable("capture"),
            executable("replay"),
        ):
            stdin = processes[-1].stdout if processes else subprocess.DEVNULL
            processes.append(
                subprocess.Popen(
                    command,
                    stdin=stdin,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                    env=self.environment,
                    cwd=self.folder,
                )
            )
        out, err = processes[-1].communicate(timeout=TIMEOUT_S)
        errors = [err, *(process.communicate()[1] for process in processes[:-1])]
        assert [process.wait() for process in processes] == [0, 0, 0], "\n".join(errors)
        return self.show(out.strip())


def addresses(printed: str) -> dict[str, int]:
    """What a test program printed as "NAME ADDRESS"."""
    return {
        name: int(value, 16) for name, value in re.findall(r"^(\w+) (0x[0-9a-f]+)$", printed, re.MULTILINE)
    }


def word_in(stages: Stages, region: dict[str, Any], state: str, address: int) -> int:
    """The 32-bit word at an address, in one of the states (``pre``, ``post``) of a region."""
    memory = stages.memory(region[state])
    return int(struct.unpack_from("<i", memory, address - region["base_address"])[0])


def region_at(capture: dict[str, Any], address: int) -> dict[str, Any]:
    """The region of a capture that holds an address."""
    return next(
        region
        for region in capture["regions"]
        if region["base_address"] <= address < region["base_address"] + region["size_bytes"]
    )
