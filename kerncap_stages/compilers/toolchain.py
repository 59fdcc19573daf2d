"""The interface between the search for a source and a family of compilers: one for HIP, one for CUDA."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from kerncap_stages.compilers.captured_code import CapturedCode
    from kerncap_stages.compilers.compile_commands import CompileCommand
    from kerncap_stages.compilers.consulted import Consulted
    from kerncap_stages.compilers.dependencies import Headers
    from kerncap_stages.compilers.kernel_unit import KernelUnit
    from kerncap_stages.compilers.ptx import PtxSearch
    from kerncap_stages.compilers.shortcuts import Shortcut
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.kernel import Language


class Tool(Protocol):
    """A compiler that was found. ``path``: its executable."""

    @property
    def path(self) -> str:
        """The executable."""

    def list_headers(self, flags: Sequence[str], unit: Path, directory: Path, target: str) -> Headers:
        """List every file that a unit includes, at any depth.

        Raises DeviceError with the compiler's message if the unit cannot be preprocessed with ``flags``.
        """

    def list_system_folders(self, target: str) -> Sequence[Path]:
        """List the compiler's own include folders, such as /usr/include: they may contain kernels."""

    def read_version(self) -> str:
        """Read the compiler's name and version, in one line."""

    def yields(self, unit: Path, flags: Sequence[str], directory: Path, target: str, symbol: str) -> bool:
        """Whether a unit, compiled in the fastest way, has a kernel with this symbol."""

    def find_definition(
        self, unit: Path, flags: Sequence[str], directory: Path, target: str, symbol: str
    ) -> tuple[Path, int] | None:
        """Find (path, line) of a kernel's definition; None if there is none, or the compiler cannot tell."""

    def compile_device_code(
        self, unit: Path, flags: Sequence[str], directory: Path, target: str
    ) -> bytes | None:
        """Compile a unit with the build's flags to a code object; None if the result has no instructions.

        Raises DeviceError with the compiler's message if the unit cannot be compiled with ``flags``.
        """

    def try_shortcuts(self, unit: KernelUnit, edited: Path | None, *, one_kernel: bool) -> Iterator[Shortcut]:
        """Compile a unit for one kernel in faster ways, the fastest first; none if there is none.

        edited: the file that is changed from one compilation to the next; None if no headers are precompiled.
        one_kernel: leave out the other kernels, if that is worth it.
        """


class Toolchain(Protocol):
    """A family of compilers for one kernel language."""

    language: Language
    line_flag: str  # makes the compiler write line tables, which name the source files
    assumed: str  # the compiler if no build is known

    def choose_target(self, capture: Capture) -> str:
        """Return the compiler's name of the target for which the captured kernel was compiled."""

    def find_tool(self, compiler: str, *, trusted: bool = False) -> Tool:
        """Find the compiler that a build names, or the user (``trusted``).

        Raises DeviceError if it is not a compiler for this language, or cannot be found.
        """

    def choose_flags(self, command: CompileCommand, defines: Sequence[str] = ()) -> tuple[str, ...]:
        """Keep the flags of a build that affect device code, with absolute paths."""

    def find_unsafe_flags(self, command: CompileCommand, defines: Sequence[str] = ()) -> tuple[str, ...]:
        """Find the flags that make a compiler run or load code: they are reported and not passed on."""

    def find_dropped_flags(self, command: CompileCommand) -> tuple[str, ...]:
        """Find flags and inputs that are left out because a rebuild of one kernel sets its own."""

    def list_own_folders(self, commands: Sequence[CompileCommand]) -> list[Path]:
        """List the include folders that the compilers of some commands search without a flag."""

    def complete_flags(self, compiler: str, flags: tuple[str, ...]) -> tuple[str, ...]:
        """Add the flags that the compiler's driver would add itself."""

    def list_other_levels(self, flags: tuple[str, ...]) -> Mapping[str, tuple[str, ...]]:
        """Return the flags for other optimisation levels, and fast math, by their names in a build."""

    def read_compiler_name(self, code_object: bytes) -> str | None:
        """Read the name of the compiler that made a code object, if it is stored there."""

    def find_assembly(
        self, capture: Capture, code: CapturedCode, roots: Sequence[Path], consulted: Consulted
    ) -> PtxSearch | None:
        """Search text that can be assembled, for a kernel without source; None if no search is needed."""

    def read_kernel_code(self, code_object: bytes, symbol: str) -> bytes | None:
        """Read the instructions of a kernel from a code object; None if it does not have the kernel."""
