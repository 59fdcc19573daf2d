"""The captured kernel whose source is searched, and what the search has compiled so far."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from kerncap_stages.code.kernel_facts import strip_unit
from kerncap_stages.errors import DeviceError
from kerncap_stages.locate.debug_types import read_arguments
from kerncap_stages.manifests.kernel import Language

if TYPE_CHECKING:
    from kerncap_stages.compilers.compile_commands import CompileCommand
    from kerncap_stages.compilers.dependencies import Headers
    from kerncap_stages.compilers.hip import RelocatableCode
    from kerncap_stages.compilers.toolchain import Tool, Toolchain

_Made = bytes | DeviceError | None


@dataclass(frozen=True)
class Link:
    """``units``: commands of the other units. ``missing``: symbols that no compiled unit defines."""

    units: tuple[CompileCommand, ...] = ()
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class Wanted:
    """The captured kernel, and the results of compilers that were already run for it."""

    toolchain: Toolchain
    symbol: str
    base_name: str
    target: str
    code_object: bytes
    defines: tuple[str, ...]
    compiler: str | None  # used instead of the compile command's
    made: dict[object, _Made] = field(default_factory=dict, compare=False)  # code objects that were compiled
    read: dict[object, Headers | None] = field(default_factory=dict, compare=False)  # headers that were read
    commands: tuple[CompileCommand, ...] = ()  # of the build: other units may have to be linked in
    links: dict[object, Link] = field(default_factory=dict, compare=False)
    relocatable: dict[object, RelocatableCode] = field(default_factory=dict, compare=False)

    @property
    def symbol_alone(self) -> str:
        """The kernel's symbol in a unit that is compiled alone: without the suffix of its original unit."""
        return strip_unit(self.symbol)

    @property
    def assumed_compiler(self) -> str:
        """The compiler of an assumed command."""
        return self.compiler or self.toolchain.assumed

    @cached_property
    def assumed_command(self) -> tuple[str, ...]:
        """The compiler and the flags of an assumed command.

        ``-g`` is one of them if the captured code object has debug information on the kernel's arguments:
        with it clang may order instructions differently. nvcc's ``-g`` concerns host code alone.
        """
        is_hip = self.toolchain.language is Language.HIP
        debugs = is_hip and bool(read_arguments(self.code_object, self.symbol))
        return (self.assumed_compiler, "-O3", *(("-g",) if debugs else ()))

    def find_tool(self, command: CompileCommand) -> Tool:
        """Find the compiler for a command. Raises DeviceError if there is none that may be run."""
        return self.toolchain.find_tool(self.compiler or command.compiler, trusted=self.compiler is not None)

    def explain_no_compiler(self) -> str | None:
        """Say why there is no compiler for an assumed command; None if there is one."""
        try:
            self.toolchain.find_tool(self.assumed_compiler, trusted=self.compiler is not None)
        except DeviceError as error:
            return f"{error}: {error.hint}"
        return None
