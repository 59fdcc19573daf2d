"""HIP's compilers: clang, also behind hipcc."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.code.offload_bundle import code_object_for
from kerncap_stages.code.targets import parse_target
from kerncap_stages.compilers import amd_code
from kerncap_stages.compilers.debug_info import defined_at
from kerncap_stages.compilers.dependencies import (
    Headers,
    first_error,
    headers,
    run_compiler,
    toolchain_folders,
)
from kerncap_stages.compilers.flags import compile_flags, unsafe_flags
from kerncap_stages.compilers.includes import environment_folders
from kerncap_stages.compilers.installed import Compiler, compiler_version, find_compiler, is_hipcc
from kerncap_stages.compilers.llvm_tools import run_llvm
from kerncap_stages.errors import DeviceError
from kerncap_stages.machine.temporary import TemporaryFolder
from kerncap_stages.manifests.kernel import Language

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kerncap_stages.compilers.compile_commands import CompileCommand
    from kerncap_stages.manifests.capture import Capture

_OPTIMISATION = re.compile(r"-O.*")
_LEVELS = ("-O0", "-O3", "-O2", "-O1")  # the likeliest first
# For the linker of device code a unit is a bundle, even of one target.
RELOCATABLE_UNIT = ("-fgpu-rdc", "-c", "--gpu-bundle-output", "--no-offload-compress")
RELOCATABLE_LINK = ("-fgpu-rdc", "--hip-link", "--offload-device-only", "--no-gpu-bundle-output")
_OTHER_PATHS = (
    *("-fdebug-prefix-map", "-ffile-prefix-map", "-fdebug-compilation-dir", "-ffile-compilation-dir"),
    *("-ffile-reproducible", "-gline", "-g0", "-gno-"),
)


@dataclass(frozen=True)
class RelocatableCode:
    """A unit's bitcode in a bundle, as the linker takes it, with the symbols that it defines and misses."""

    bundle: bytes
    defined: frozenset[str]
    undefined: frozenset[str]


@dataclass(frozen=True)
class HipTool:
    """A clang; see ``toolchain.Tool``."""

    compiler: Compiler

    @property
    def path(self) -> str:
        """What is run."""
        return self.compiler.path

    def headers(self, flags: Sequence[str], unit: Path, directory: Path, target: str) -> Headers:
        """As the compiler itself lists them."""
        return headers(self.compiler, flags, unit, directory, target)

    def system_folders(self, target: str) -> tuple[Path, ...]:
        """As it lists them: also those of ROCm."""
        return toolchain_folders(self.compiler, target)

    def version(self) -> str:
        """The first line of what it says of itself."""
        return compiler_version(self.path)

    def yields(self, unit: Path, flags: Sequence[str], directory: Path, target: str, symbol: str) -> bool:
        """Compile to assembly, quickly, and look for the kernel's label."""
        quick = [*(flag for flag in flags if not _OPTIMISATION.fullmatch(flag)), "-O0"]
        words = self.compiler.command(target, quick, "-w", "-S", "-o", "-", str(unit))
        result = run_compiler(words, directory)
        mark = re.compile(r"^" + re.escape(symbol) + r":", re.MULTILINE)
        return result.returncode == 0 and mark.search(result.stdout) is not None

    def defined_at(
        self, unit: Path, flags: Sequence[str], directory: Path, target: str, symbol: str
    ) -> tuple[Path, int] | None:
        """Compile to LLVM's assembly with debug information, paths as they are."""
        shaping = (flag for flag in flags if not _OPTIMISATION.fullmatch(flag))
        quick = [*(flag for flag in shaping if not flag.startswith(_OTHER_PATHS)), "-O0", "-g"]
        words = self.compiler.command(target, quick, "-w", "-S", "-emit-llvm", "-o", "-", str(unit))
        result = run_compiler(words, directory)
        return defined_at(result.stdout, symbol) if result.returncode == 0 else None

    def device_code(self, unit: Path, flags: Sequence[str], directory: Path, target: str) -> bytes | None:
        """Compile as the build does."""
        with TemporaryFolder("trial") as name:
            output = Path(name) / "code"
            rest = ("-w", "--no-gpu-bundle-output", "-o", str(output), str(unit))
            result = run_compiler(self.compiler.command(target, flags, *rest), directory)
            if result.returncode != 0 or not output.is_file():
                raise DeviceError(f"{unit} does not compile: {first_error(result.stderr)}")
            return output.read_bytes()

    def relocatable_code(
        self, unit: Path, flags: Sequence[str], directory: Path, target: str
    ) -> RelocatableCode:
        """Compile a unit of a build with -fgpu-rdc, without linking it.

        Raises DeviceError with the compiler's words if the unit cannot be compiled under ``flags``.
        """
        with TemporaryFolder("unit") as name:
            output, bitcode = Path(name) / "unit.o", Path(name) / "unit.bc"
            rest = ("-w", *RELOCATABLE_UNIT, "-o", str(output), str(unit))
            result = run_compiler(self.compiler.command(target, flags, *rest), directory)
            if result.returncode != 0 or not output.is_file():
                raise DeviceError(f"{unit} does not compile: {first_error(result.stderr)}")
            bundle = output.read_bytes()
            bitcode.write_bytes(code_object_for(bundle, target))
            listed = run_llvm("llvm-nm", "--format=posix", bitcode)
        if listed.returncode != 0:
            raise DeviceError(f"llvm-nm cannot read what {unit} becomes: {first_error(listed.stderr)}")
        symbols = [line.split()[:2] for line in listed.stdout.splitlines() if len(line.split()) >= 2]
        missing = frozenset(symbol for symbol, kind in symbols if kind == "U")
        local = frozenset(symbol for symbol, kind in symbols if kind.islower() and kind not in "vw")
        return RelocatableCode(bundle, frozenset(symbol for symbol, _ in symbols) - missing - local, missing)

    def linked_code(self, units: Sequence[RelocatableCode], flags: Sequence[str], target: str) -> bytes:
        """Link units as the compiler's driver links a program's device code.

        Raises DeviceError with the linker's words if something is missing.
        """
        with TemporaryFolder("link") as name:
            output = Path(name) / "code"
            places = [Path(name) / f"{i}.o" for i in range(len(units))]
            for place, unit in zip(places, units, strict=True):
                place.write_bytes(unit.bundle)
            words = [self.compiler.path, f"--offload-arch={target}", *RELOCATABLE_LINK]
            words += optimisation((*self.compiler.lead, *flags))
            result = run_compiler([*words, "-w", "-o", str(output), *map(str, places)], Path(name))
            if result.returncode != 0 or not output.is_file():
                raise DeviceError(f"the device code does not link: {first_error(result.stderr)}")
            return output.read_bytes()


def optimisation(flags: Sequence[str]) -> tuple[str, ...]:
    """The last flag that gives a level, if there is one: the linker optimises, too."""
    return tuple(flag for flag in flags if _OPTIMISATION.fullmatch(flag))[-1:]


class HipToolchain:
    """See ``toolchain.Toolchain``."""

    language = Language.HIP
    line_flag = "-gline-tables-only"
    assumed = "hipcc"

    def target(self, capture: Capture) -> str:
        """The code object's: code for any setting of xnack differs from that for the device's own."""
        built_for = parse_target(capture.kernel.code_object.isa)
        device = capture.device
        return device.target if built_for is None else str(built_for)

    def find(self, compiler: str, *, trusted: bool = False) -> HipTool:
        """The clang behind a name."""
        return HipTool(find_compiler(compiler, trusted=trusted))

    def flags(self, command: CompileCommand, defines: Sequence[str] = ()) -> tuple[str, ...]:
        """What shapes device code."""
        return compile_flags(command, defines)

    def unsafe_flags(self, command: CompileCommand, defines: Sequence[str] = ()) -> tuple[str, ...]:  # noqa: ARG002
        """What loads code; macros are safe, as no shell reads them."""
        return unsafe_flags(command)

    def described_flags(self, compiler: str, flags: tuple[str, ...]) -> tuple[str, ...]:
        """What hipcc adds, said so that another clang makes the same code."""
        if is_hipcc(compiler) and not any(flag.startswith("-O") for flag in flags):
            return ("-O3", *flags)
        return flags

    def own_folders(self, commands: Sequence[CompileCommand]) -> list[Path]:  # noqa: ARG002
        """ROCm's are named by the flags of a build, as those of other libraries are."""
        return environment_folders()

    def find_assembly(self, capture: Capture, code: object, roots: object, consulted: object) -> None:
        """Needs no file: LLVM takes the code object itself apart."""

    def kernel_code(self, code_object: bytes, symbol: str) -> bytes | None:
        """The instructions of a kernel, and of what it calls."""
        return amd_code.kernel_code(code_object, symbol)

    def made_by(self, code_object: bytes) -> str | None:
        """LLVM writes its version."""
        return amd_code.made_by(code_object)

    def other_levels(self, flags: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
        """As the last flag that gives a level counts, one more."""
        given = next((flag for flag in reversed(flags) if _OPTIMISATION.fullmatch(flag)), None)
        return {level: (*flags, level) for level in _LEVELS if level != given}
