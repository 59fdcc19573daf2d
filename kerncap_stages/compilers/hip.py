"""HIP's compilers: clang, and the clang that hipcc calls."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.code.offload_bundle import extract_code_object
from kerncap_stages.code.targets import parse_target
from kerncap_stages.compilers import amd_code
from kerncap_stages.compilers.debug_info import defines_kernel, find_definition
from kerncap_stages.compilers.dependencies import (
    Headers,
    find_first_error,
    list_headers,
    list_toolchain_folders,
    run_compiler,
)
from kerncap_stages.compilers.flags import find_dropped_flags, find_unsafe_flags, keep_shaping_flags
from kerncap_stages.compilers.includes import list_environment_folders
from kerncap_stages.compilers.installed import (
    OPTIMISATION,
    Compiler,
    find_compiler,
    is_hipcc,
    read_compiler_version,
)
from kerncap_stages.compilers.kernel_unit import KernelUnit
from kerncap_stages.compilers.llvm_tools import run_llvm
from kerncap_stages.compilers.shortcuts import compile_unit, try_shortcuts
from kerncap_stages.errors import DeviceError
from kerncap_stages.machine.temporary import TemporaryFolder
from kerncap_stages.manifests.kernel import Language

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kerncap_stages.compilers.compile_commands import CompileCommand
    from kerncap_stages.compilers.shortcuts import Shortcut
    from kerncap_stages.manifests.capture import Capture

_FAST_MATH = "-ffast-math"
_LEVELS = ("-O0", "-O3", "-O2", "-O1")  # the likeliest first
# The linker of device code takes a unit as a bundle, even for one target.
RELOCATABLE_UNIT = ("-fgpu-rdc", "-c", "--gpu-bundle-output", "--no-offload-compress")
RELOCATABLE_LINK = ("-fgpu-rdc", "--hip-link", "--offload-device-only", "--no-gpu-bundle-output")
_OTHER_PATHS = (
    *("-fdebug-prefix-map", "-ffile-prefix-map", "-fdebug-compilation-dir", "-ffile-compilation-dir"),
    *("-ffile-reproducible", "-gline", "-g0", "-gno-"),
)


@dataclass(frozen=True)
class RelocatableCode:
    """A unit's bitcode in a bundle, as the linker takes it, with its defined and undefined symbols."""

    bundle: bytes
    defined: frozenset[str]
    undefined: frozenset[str]


@dataclass(frozen=True)
class HipTool:
    """A clang; see ``toolchain.Tool``."""

    compiler: Compiler

    @property
    def path(self) -> str:
        """The executable."""
        return self.compiler.path

    def list_headers(self, flags: Sequence[str], unit: Path, directory: Path, target: str) -> Headers:
        """Ask the compiler for the headers of a unit."""
        return list_headers(self.compiler, flags, unit, directory, target)

    def list_system_folders(self, target: str) -> tuple[Path, ...]:
        """Ask the compiler for its include folders, which include ROCm's."""
        return list_toolchain_folders(self.compiler, target)

    def read_version(self) -> str:
        """Read the first line of ``--version``."""
        return read_compiler_version(self.path)

    def yields(self, unit: Path, flags: Sequence[str], directory: Path, target: str, symbol: str) -> bool:
        """Compile to LLVM's assembly without optimisation, and search the kernel.

        No machine code is made: inline assembly may need constants that only optimisation finds.
        """
        quick = [*(flag for flag in flags if not OPTIMISATION.fullmatch(flag)), "-O0"]
        words = self.compiler.make_command(target, quick, "-w", "-S", "-emit-llvm", "-o", "-", str(unit))
        result = run_compiler(words, directory)
        return result.returncode == 0 and defines_kernel(result.stdout, symbol)

    def find_definition(
        self, unit: Path, flags: Sequence[str], directory: Path, target: str, symbol: str
    ) -> tuple[Path, int] | None:
        """Compile to LLVM's assembly with debug information and unmapped paths, and search it."""
        shaping = (flag for flag in flags if not OPTIMISATION.fullmatch(flag))
        quick = [*(flag for flag in shaping if not flag.startswith(_OTHER_PATHS)), "-O0", "-g"]
        words = self.compiler.make_command(target, quick, "-w", "-S", "-emit-llvm", "-o", "-", str(unit))
        result = run_compiler(words, directory)
        return find_definition(result.stdout, symbol) if result.returncode == 0 else None

    def compile_device_code(
        self, unit: Path, flags: Sequence[str], directory: Path, target: str
    ) -> bytes | None:
        """Compile with the build's flags."""
        return compile_unit(self.compiler, KernelUnit(unit, flags, directory, target, symbol=""))

    def try_shortcuts(self, unit: KernelUnit, edited: Path | None, *, one_kernel: bool) -> Iterator[Shortcut]:
        """Compile with the build's flags; see ``shortcuts``."""
        return try_shortcuts(self.compiler, unit, edited, one_kernel=one_kernel)

    def compile_relocatable(
        self, unit: Path, flags: Sequence[str], directory: Path, target: str
    ) -> RelocatableCode:
        """Compile a unit of a build with -fgpu-rdc, without linking it.

        Raises DeviceError with the compiler's message if the unit cannot be compiled with ``flags``.
        """
        with TemporaryFolder("unit") as name:
            output, bitcode = Path(name) / "unit.o", Path(name) / "unit.bc"
            rest = ("-w", *RELOCATABLE_UNIT, "-o", str(output), str(unit))
            result = run_compiler(self.compiler.make_command(target, flags, *rest), directory)
            if result.returncode != 0 or not output.is_file():
                raise DeviceError(f"{unit} does not compile: {find_first_error(result.stderr)}")
            bundle = output.read_bytes()
            bitcode.write_bytes(extract_code_object(bundle, target))
            listed = run_llvm("llvm-nm", "--format=posix", bitcode)
        if listed.returncode != 0:
            raise DeviceError(f"llvm-nm cannot read the bitcode of {unit}: {find_first_error(listed.stderr)}")
        symbols = [line.split()[:2] for line in listed.stdout.splitlines() if len(line.split()) >= 2]
        missing = frozenset(symbol for symbol, kind in symbols if kind == "U")
        local = frozenset(symbol for symbol, kind in symbols if kind.islower() and kind not in "vw")
        return RelocatableCode(bundle, frozenset(symbol for symbol, _ in symbols) - missing - local, missing)

    def link_code(self, units: Sequence[RelocatableCode], flags: Sequence[str], target: str) -> bytes:
        """Link units in the same way as the compiler's driver links a program's device code.

        Raises DeviceError with the linker's message if a symbol is missing.
        """
        with TemporaryFolder("link") as name:
            output = Path(name) / "code"
            places = [Path(name) / f"{i}.o" for i in range(len(units))]
            for place, unit in zip(places, units, strict=True):
                place.write_bytes(unit.bundle)
            words = [self.compiler.path, f"--offload-arch={target}", *RELOCATABLE_LINK]
            words += find_optimisation_flag((*self.compiler.lead, *flags))
            result = run_compiler([*words, "-w", "-o", str(output), *map(str, places)], Path(name))
            if result.returncode != 0 or not output.is_file():
                raise DeviceError(f"the device code does not link: {find_first_error(result.stderr)}")
            return output.read_bytes()


def find_optimisation_flag(flags: Sequence[str]) -> tuple[str, ...]:
    """Return the last flag that gives an optimisation level, if there is one: the linker optimises, too."""
    return tuple(flag for flag in flags if OPTIMISATION.fullmatch(flag))[-1:]


class HipToolchain:
    """See ``toolchain.Toolchain``."""

    language = Language.HIP
    line_flag = "-gline-tables-only"
    assumed = "hipcc"

    def choose_target(self, capture: Capture) -> str:
        """Return the code object's target, not the device's: code for any setting of XNACK differs."""
        built_for = parse_target(capture.kernel.code_object.isa)
        device = capture.device
        return device.target if built_for is None else str(built_for)

    def find_tool(self, compiler: str, *, trusted: bool = False) -> HipTool:
        """Find the clang that a compiler's name stands for."""
        return HipTool(find_compiler(compiler, trusted=trusted))

    def choose_flags(self, command: CompileCommand, defines: Sequence[str] = ()) -> tuple[str, ...]:
        """Keep the flags that affect device code."""
        return keep_shaping_flags(command, defines)

    def find_unsafe_flags(self, command: CompileCommand, defines: Sequence[str] = ()) -> tuple[str, ...]:  # noqa: ARG002
        """Find flags that load code; macros are safe, because no shell reads them."""
        return find_unsafe_flags(command)

    def find_dropped_flags(self, command: CompileCommand) -> tuple[str, ...]:
        """Find outputs, phases, targets and inputs."""
        return find_dropped_flags(command)

    def complete_flags(self, compiler: str, flags: tuple[str, ...]) -> tuple[str, ...]:
        """Add the flag that hipcc adds itself, so that another clang makes the same code."""
        if is_hipcc(compiler) and not any(flag.startswith("-O") for flag in flags):
            return ("-O3", *flags)
        return flags

    def list_own_folders(self, commands: Sequence[CompileCommand]) -> list[Path]:  # noqa: ARG002
        """List the environment's folders only: a build's flags name ROCm's folders and those of libraries."""
        return list_environment_folders()

    def find_assembly(self, capture: Capture, code: object, roots: object, consulted: object) -> None:
        """Search nothing: LLVM disassembles the code object itself."""

    def read_kernel_code(self, code_object: bytes, symbol: str) -> bytes | None:
        """Read the instructions of a kernel and of the functions that it calls."""
        return amd_code.read_kernel_code(code_object, symbol)

    def read_compiler_name(self, code_object: bytes) -> str | None:
        """Read LLVM's version from the code object."""
        return amd_code.read_compiler_name(code_object)

    def list_other_levels(self, flags: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
        """Return the flags with each other level added at the end (the last one is used), or fast math."""
        given = next((flag for flag in reversed(flags) if OPTIMISATION.fullmatch(flag)), None)
        others = [level for level in _LEVELS if level != given]
        fast = [] if _FAST_MATH in flags else [_FAST_MATH]
        return {level: (*flags, level) for level in (*fast, *others)}
