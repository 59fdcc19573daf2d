"""What a kind of project is: one implementation for AMD's compilers, one for NVIDIA's."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from kerncap_stages.compilers import compile_commands
from kerncap_stages.manifests.os_strings import os_string

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.source import CompileCommand, Source
    from kerncap_stages.store import Store


@dataclass(frozen=True)
class Build:
    """How a project compiles its kernel.

    ``placed``: original path -> place in the project. ``files``: what is made besides. ``values``: for the
    templates. ``problem``: why it cannot be compiled, where that is so.
    """

    placed: Mapping[str, str]
    files: Mapping[str, bytes] = field(default_factory=dict)
    values: Mapping[str, object] = field(default_factory=dict)
    problem: str = ""


class ProjectKind(Protocol):
    """One folder of templates, and what its files are called."""

    template: str  # a folder of templates/
    editable: str
    assembly: str  # what is edited where there is no source
    code: str  # the captured code object
    built: str

    def build(
        self,
        capture: Capture,
        originals: Sequence[str],
        command: CompileCommand | None,
        linked: Sequence[CompileCommand] = (),
    ) -> Build:
        """Place the sources, the one with the definition first, and say how they are compiled.

        linked: commands of other units, whose device code is linked with the kernel's.
        """

    def assembly_text(self, store: Store, capture: Capture, source: Source | None) -> str:
        """The kernel as text that can be assembled again.

        Raises an error that says what is missing.
        """

    def listing(self, store: Store, capture: Capture) -> dict[str, bytes]:
        """Files to read, at most one, where neither source nor assembly can be edited."""


def judged_flags(
    command: CompileCommand, judge: Callable[[compile_commands.CompileCommand], tuple[str, ...]]
) -> tuple[str, ...]:
    """A located command's flags, judged again: the artifact may have come in an archive of anybody's."""
    unit, directory = (Path(os_string(path)) for path in (command.translation_unit, command.directory))
    words = tuple(os_string(word) for word in command.arguments)
    return judge(compile_commands.CompileCommand(unit, directory, words))
