"""What the search for a source asks of a compiler family; one implementation for HIP, one for CUDA."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from kerncap_stages.compilers.captured_code import CapturedCode
    from kerncap_stages.compilers.compile_commands import CompileCommand
    from kerncap_stages.compilers.consulted import Consulted
    from kerncap_stages.compilers.dependencies import Headers
    from kerncap_stages.compilers.ptx import PtxSearch
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.kernel import Language


class Tool(Protocol):
    """A compiler that was found. ``path``: its executable."""

    @property
    def path(self) -> str:
        """What is run."""

    def headers(self, flags: Sequence[str], unit: Path, directory: Path, target: str) -> Headers:
        """Every file that a unit includes, at any depth.

        Raises DeviceError with the compiler's words if the unit cannot be preprocessed under ``flags``.
        """

    def system_folders(self, target: str) -> Sequence[Path]:
        """Its own include folders, in which libraries of kernels may be installed, as in /usr/include."""

    def version(self) -> str:
        """What the compiler says of itself, in one line."""

    def yields(self, unit: Path, flags: Sequence[str], directory: Path, target: str, symbol: str) -> bool:
        """Whether a unit, compiled quickly, has a kernel of that symbol."""

    def defined_at(
        self, unit: Path, flags: Sequence[str], directory: Path, target: str, symbol: str
    ) -> tuple[Path, int] | None:
        """(path, line) of a kernel's definition; None where there is none, or the compiler cannot tell."""

    def device_code(self, unit: Path, flags: Sequence[str], directory: Path, target: str) -> bytes | None:
        """The code object of a unit, compiled as the build does; None where that holds no instructions.

        Raises DeviceError with the compiler's words if the unit cannot be compiled under ``flags``.
        """


class Toolchain(Protocol):
    """A family of compilers for one kernel language."""

    language: Language
    line_flag: str  # with which a build tells the files that it was made from
    assumed: str  # the compiler where no build is known

    def target(self, capture: Capture) -> str:
        """What the captured kernel was compiled for, as the compiler calls it."""

    def find(self, compiler: str, *, trusted: bool = False) -> Tool:
        """The compiler behind a name from a build, or from the user (``trusted``).

        Raises DeviceError if it is no compiler for this language, or cannot be found.
        """

    def flags(self, command: CompileCommand, defines: Sequence[str] = ()) -> tuple[str, ...]:
        """The flags of a build that shape device code, with absolute paths."""

    def unsafe_flags(self, command: CompileCommand, defines: Sequence[str] = ()) -> tuple[str, ...]:
        """Those that make a compiler run or load code: told, and never passed on."""

    def own_folders(self, commands: Sequence[CompileCommand]) -> list[Path]:
        """Include folders that the compilers of some commands look into without being told."""

    def described_flags(self, compiler: str, flags: tuple[str, ...]) -> tuple[str, ...]:
        """The flags with what the compiler's driver would add to them itself."""

    def other_levels(self, flags: tuple[str, ...]) -> Mapping[str, tuple[str, ...]]:
        """The flags with every other level of optimisation, by what a build calls it."""

    def made_by(self, code_object: bytes) -> str | None:
        """The compiler that made a code object, where that says so."""

    def find_assembly(
        self, capture: Capture, code: CapturedCode, roots: Sequence[Path], consulted: Consulted
    ) -> PtxSearch | None:
        """Text that can be assembled again, for a kernel without source; None where none is looked for."""

    def kernel_code(self, code_object: bytes, symbol: str) -> bytes | None:
        """The instructions of a kernel in a code object; None where it does not have it."""
