"""The request of an extraction, its steps, and its result."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kerncap_stages.collect.program import ProgramSpec
    from kerncap_stages.digest import Digest
    from kerncap_stages.errors import KerncapError
    from kerncap_stages.manifests.base import Dim3
    from kerncap_stages.manifests.capture import Capture, NameMatch
    from kerncap_stages.manifests.reproducer import Reproducer
    from kerncap_stages.manifests.source import Source
    from kerncap_stages.manifests.validation import Validation

PROFILE, CAPTURE, LOCATE, GENERATE, VALIDATE = "profile", "capture", "locate", "generate", "validate"


@dataclass(frozen=True)
class Step:
    """The result of one step. ``digest``: its artifact; None if it made none.

    ``notes``: what it could not do, and why.
    """

    name: str
    digest: Digest | None
    summary: str
    notes: tuple[str, ...] = ()
    duration_ns: int = 0


@dataclass(frozen=True)
class ExtractRequest:
    """Which kernel to extract, from which program, and into which folder.

    ``spec`` or ``profile`` is needed. With ``profile_first`` the program is profiled first. If several
    kernels match, the one that takes most time is then captured.
    """

    spec: ProgramSpec | None = None
    profile: Digest | None = None
    profile_first: bool = True
    kernel: str | None = None
    match: NameMatch | None = None  # None: part of the name
    rank: int | None = None  # the N-th kernel of the profile, instead of one by name
    dispatch: int | None = None  # None: the first in the launch shape that took most time
    grid_blocks: Dim3 | None = None  # of the dispatch; 0 matches any
    block_work_items: Dim3 | None = None
    configuration: Mapping[str, str] = field(default_factory=dict)  # values that a Triton kernel must have
    with_post: bool = True
    with_trials: bool = False
    reachable_only: bool = False
    hold: bool = False
    wait_s: float = 60.0
    memory_bytes: int = 512 << 20
    output: Path | None = None
    force: bool = False
    fresh: bool = False
    source_dirs: tuple[Path, ...] = ()
    compile_commands: Path | None = None
    defines: tuple[str, ...] = ()
    compiler: str | None = None
    stop_after: bool = False
    timeout_s: float | None = None
    validate: bool = True
    on_start: Callable[[str], None] = field(default=lambda _step: None)
    on_step: Callable[[Step], None] = field(default=lambda _step: None)
    on_copied: Callable[[int, int], None] = field(default=lambda _done, _total: None)


@dataclass(frozen=True)
class Extraction:
    """A project, and the steps that made it. ``failure``: why the project could not be checked, if so."""

    steps: tuple[Step, ...]
    folder: Path
    capture: Capture
    source: Source | None
    reproducer: Reproducer
    validation: Validation | None
    failure: KerncapError | None

    @property
    def compile_command_found(self) -> bool:
        """Whether the build gave the compile command; otherwise its flags are assumed."""
        command = None if self.source is None else self.source.compile_command
        return command is not None and command.database is not None

    @property
    def notes(self) -> list[str]:
        """Everything that the steps could not do."""
        return [note for step in self.steps for note in step.notes]

    @property
    def digests(self) -> dict[str, str]:
        """The artifact of each step that made one."""
        return {step.name: str(step.digest) for step in self.steps if step.digest is not None}


class Steps:
    """Collects and reports steps, each with its duration."""

    def __init__(self, request: ExtractRequest) -> None:
        self._request = request
        self._started_ns = 0
        self.done: list[Step] = []

    def start(self, name: str) -> None:
        """Say that a step begins."""
        self._started_ns = time.monotonic_ns()
        self._request.on_start(name)

    def end(self, name: str, digest: Digest | None, summary: str, *notes: str) -> None:
        """Report the result of the step. Empty notes are dropped."""
        duration_ns = time.monotonic_ns() - self._started_ns
        step = Step(name, digest, summary, tuple(note for note in notes if note), duration_ns)
        self.done.append(step)
        self._request.on_step(step)
