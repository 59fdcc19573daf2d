"""What is looked for: the captured kernel, and what the search compiled so far."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kerncap_stages.code.kernel_facts import without_unit
from kerncap_stages.errors import DeviceError

if TYPE_CHECKING:
    from kerncap_stages.compilers.compile_commands import CompileCommand
    from kerncap_stages.compilers.dependencies import Headers
    from kerncap_stages.compilers.hip import RelocatableCode
    from kerncap_stages.compilers.toolchain import Tool, Toolchain

_Made = bytes | DeviceError | None


@dataclass(frozen=True)
class Link:
    """``units``: commands of the other units. ``missing``: symbols that none of the units asked defines."""

    units: tuple[CompileCommand, ...] = ()
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class Wanted:
    """The captured kernel, for whoever must prove which command made it."""

    toolchain: Toolchain
    symbol: str
    base_name: str
    target: str
    code_object: bytes
    defines: tuple[str, ...]
    compiler: str | None  # instead of the one of the compile command
    made: dict[object, _Made] = field(default_factory=dict, compare=False)  # what this search compiled
    read: dict[object, Headers | None] = field(default_factory=dict, compare=False)  # and preprocessed
    commands: tuple[CompileCommand, ...] = ()  # of the build: other units may be linked in
    links: dict[object, Link] = field(default_factory=dict, compare=False)
    relocatable: dict[object, RelocatableCode] = field(default_factory=dict, compare=False)

    @property
    def alone(self) -> str:
        """The kernel's symbol in a unit that is compiled alone."""
        return without_unit(self.symbol)

    def tool_for(self, command: CompileCommand) -> Tool:
        """The compiler to ask; raises DeviceError if there is none that may be run."""
        return self.toolchain.find(self.compiler or command.compiler, trusted=self.compiler is not None)
