"""The interface of a kind of project: one implementation for AMD's compilers, one for NVIDIA's."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from kerncap_stages.compilers import compile_commands
from kerncap_stages.manifests.os_strings import to_os_string

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.source import CompileCommand, PrecompiledHeaders, Source
    from kerncap_stages.store import Store


@dataclass(frozen=True)
class Build:
    """How a project compiles its kernel.

    placed: path in the project, by original path.
    files: further files of the project.
    values: for the templates.
    problem: why the project cannot compile its kernel; empty if it can.
    """

    placed: Mapping[str, str]
    files: Mapping[str, bytes] = field(default_factory=dict)
    values: Mapping[str, object] = field(default_factory=dict)
    problem: str = ""


class ProjectKind(Protocol):
    """A kind of project: its templates, and the names of its files."""

    template: str  # a folder of templates/
    editable: str
    assembly: str  # edited if there is no source
    code: str  # the captured code object
    built: str  # the code object that `make` builds

    def build(
        self,
        capture: Capture,
        originals: Mapping[str, str],
        command: CompileCommand | None,
        linked: Sequence[CompileCommand] = (),
        *,
        one_kernel: bool = False,
        precompiled: PrecompiledHeaders | None = None,
    ) -> Build:
        """Place the sources, the definition's file first, and say how they are compiled.

        originals: digest by path.
        linked: commands of other units whose device code is linked with the kernel's.
        one_kernel: without the unit's other kernels. precompiled: headers that are parsed once.
        """


class InstructionsKind(ProjectKind, Protocol):
    """A kind that is edited as instructions, or shown as them, where there is no source."""

    def read_assembly_text(self, store: Store, capture: Capture, source: Source | None) -> str:
        """Return the kernel as text that can be assembled.

        Raises an error that says what is missing.
        """

    def make_listing(self, store: Store, capture: Capture) -> dict[str, bytes]:
        """Make a file that shows the instructions, for a kernel that cannot be edited. At most one file."""


def judge_flags(
    command: CompileCommand, judge: Callable[[compile_commands.CompileCommand], tuple[str, ...]]
) -> tuple[str, ...]:
    """Filter the flags of a source's compile command again: the artifact may come from anybody's archive."""
    unit, directory = (Path(to_os_string(path)) for path in (command.translation_unit, command.directory))
    words = tuple(to_os_string(word) for word in command.arguments)
    return judge(compile_commands.CompileCommand(unit, directory, words))
