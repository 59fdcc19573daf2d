"""Runs the user's program with a capture library in its environment."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from kerncap_stages.digest import Digest
from kerncap_stages.errors import UsageError
from kerncap_stages.machine.cannot_run import explain_start_failure
from kerncap_stages.machine.softgpu import fall_back
from kerncap_stages.manifests.base import to_os_text
from kerncap_stages.manifests.environment import Program
from kerncap_stages.manifests.os_strings import to_os_string

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

# Variables that decide which GPU code runs and how. They are recorded to run a program again in the same way.
_RECORDED_PREFIXES = (
    "AMD_",
    "CUBLAS",  # CUBLASLT_, too
    "CUDA_",
    "CUDNN_",
    "CUPY_",
    "GPU_",
    "HIP_",
    "HSA_",
    "KOKKOS_",
    "MIOPEN_",
    "NCCL_",
    "NUMBA_",
    "NVIDIA_",
    "NVTE_",
    "OMP_",
    "PYTORCH_",
    "ROCBLAS_",
    "ROCM_",
    "ROCR_",
    "TENSILE_",
    "TORCHINDUCTOR_",
    "TORCH_",
    "TRITON_",
    "XLA_",
)
_RECORDED_NAMES = (
    "KERNCAP_SOFTGPU_GPUS",
    "KERNCAP_SOFTGPU_TARGET",
    "KERNCAP_SOFTGPU_VRAM_BYTES",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "PYTHONPATH",
)
_PRELOAD = "LD_PRELOAD"
_GRACE_S = 5.0
# How long a driver may keep a killed process; the replayer's process has the same limit.
_KILL_WAIT_S = 30.0


@dataclass(frozen=True)
class ProgramSpec:
    """What to run. ``environment`` is added to the environment of this process."""

    command: tuple[str, ...]
    working_directory: Path = field(default_factory=Path.cwd)
    environment: Mapping[str, str] = field(default_factory=dict)
    stdout: Path | None = None
    stdin: Path | None = None
    # The program has our standard input and output and our process group, as if the user had started it.
    in_foreground: bool = False

    @classmethod
    def from_manifest(cls, program: Program) -> ProgramSpec:
        """Return what runs a program again in the way that a manifest recorded."""
        return cls(
            command=tuple(to_os_string(part) for part in program.command),
            working_directory=Path(to_os_string(program.working_directory)),
            environment={name: to_os_string(value) for name, value in program.environment.items()},
        )

    @property
    def merged_environment(self) -> dict[str, str]:
        """The whole environment, without the variables that load the capture library."""
        return {**os.environ, **self.environment}


class RunningProgram:
    """A program of the user, in a process group of its own unless it runs in the foreground."""

    def __init__(self, spec: ProgramSpec, added: Mapping[str, str], preload: Path | None = None) -> None:
        """``added``: further variables. ``preload``: a library for all processes, after the others."""
        self.spec = spec
        with contextlib.ExitStack() as files:
            stdin: BinaryIO | int | None = None if spec.in_foreground else subprocess.DEVNULL
            stdout: BinaryIO | int | None = None if spec.in_foreground else 2  # ours is for digests
            try:
                if spec.stdin is not None:
                    stdin = files.enter_context(spec.stdin.open("rb"))
                if spec.stdout is not None:
                    stdout = files.enter_context(spec.stdout.open("wb"))
            except OSError as error:
                raise UsageError(
                    f"cannot open {error.filename} for the program: {error.strerror}",
                    hint="check --app-stdin and --app-stdout",
                ) from error
            self.started_ns = time.monotonic_ns()
            self.ended_ns: int | None = None  # when ``has_ended`` first said so
            try:
                self._process = subprocess.Popen(
                    spec.command,
                    cwd=spec.working_directory,
                    env=_make_environment(spec, added, preload),
                    stdin=stdin,
                    stdout=stdout,
                    process_group=None if spec.in_foreground else 0,
                )
            except OSError as error:
                raise explain_start_failure(spec.command[0], spec.working_directory, error) from error
        self.pidfd = os.pidfd_open(self._process.pid)
        self._is_held = False

    def has_ended(self) -> bool:
        """Whether the started process has ended; its children may go on."""
        ended = self._process.poll() is not None
        if ended and self.ended_ns is None:
            self.ended_ns = time.monotonic_ns()
        return ended

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the started process, unless it has ended."""
        self._process.send_signal(number)

    @property
    def exit_code(self) -> int | None:
        """The exit code; None while the program runs, or if a signal ended it."""
        code = self._process.returncode
        return code if code is None or code >= 0 else None

    @property
    def exit_signal(self) -> int | None:
        """The signal that ended the program, if one did."""
        code = self._process.returncode
        return -code if code is not None and code < 0 else None

    @property
    def is_held(self) -> bool:
        """Whether the driver still keeps the killed process after _KILL_WAIT_S."""
        return self._is_held and not self.has_ended()

    def explain_held(self) -> Iterator[str]:
        """Yield a message if the driver keeps the killed process."""
        if self.is_held:
            yield (
                f"{self.spec.command[0]} (process {self._process.pid}) was killed but has not ended after "
                f"{_KILL_WAIT_S:g} s, because the driver has not released it; until then, the memory that "
                "it holds on the device may be missing"
            )

    def describe_end(self) -> str:
        """Say how the program ended."""
        if self.is_held:
            return "was killed and has not ended"
        if self.exit_signal is not None:
            try:
                name = signal.Signals(self.exit_signal).name
            except ValueError:
                name = str(self.exit_signal)
            return f"ended by {name}"
        return f"ended with exit code {self.exit_code}"

    def stop(self) -> None:
        """End the whole process group: by SIGTERM, and by SIGKILL after _GRACE_S or if this is interrupted.

        Returns after _KILL_WAIT_S at the latest: a driver may keep a killed process (``is_held``).
        """
        if self.is_held:
            return
        try:
            self._signal_group(signal.SIGTERM)
            self._process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            pass
        finally:
            if self._process.poll() is None:
                self._signal_group(signal.SIGKILL)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(_KILL_WAIT_S)
                self._is_held = self._process.poll() is None

    def _signal_group(self, number: signal.Signals) -> None:
        if self.spec.in_foreground:  # the group is ours, too
            self._process.send_signal(number)
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def describe(self) -> Program:
        """Describe the program for a manifest."""
        environment = self.spec.merged_environment
        recorded = {
            name: to_os_text(value)
            for name, value in sorted(environment.items())
            if name.startswith(_RECORDED_PREFIXES) or name in _RECORDED_NAMES or name in self.spec.environment
        }
        return Program(
            command=tuple(to_os_text(part) for part in self.spec.command),
            working_directory=to_os_text(str(self.spec.working_directory)),
            environment=recorded,
            executable=hash_executable(self.spec.command, self.spec.working_directory, environment),
            exit_code=self.exit_code,
            exit_signal=self.exit_signal,
        )


def _make_environment(spec: ProgramSpec, added: Mapping[str, str], preload: Path | None) -> dict[str, str]:
    environment = {**spec.merged_environment, **fall_back(spec.merged_environment), **added}
    if preload is not None:
        # The last one: some libraries, such as a sanitizer's, must be the first.
        others = environment.get(_PRELOAD, "")
        environment[_PRELOAD] = f"{others}:{preload}" if others else str(preload)
    return environment


def hash_executable(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> Digest | None:
    """Hash the file that a command runs; None if it cannot be read."""
    name = command[0]
    found = str(folder / name) if "/" in name else shutil.which(name, path=environment.get("PATH"))
    if found is None:
        return None
    try:
        with Path(found).open("rb") as file:
            return Digest(hashlib.file_digest(file, "sha256").hexdigest())
    except OSError:
        return None
