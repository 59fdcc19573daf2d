"""What a project says about a build: which file is its source, and for which compiler it was made."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.compilers.compile_commands import CompileCommand
from kerncap_stages.compilers.cuda import CudaToolchain
from kerncap_stages.compilers.hip import HipToolchain
from kerncap_stages.compilers.nvrtc import SCRIPT
from kerncap_stages.errors import UsageError
from kerncap_stages.project.folder import list_written_files

if TYPE_CHECKING:
    from collections.abc import Sequence

_STEM = "kernel_variant"
# What may take the place of a project's source; nothing, where a code object or Python is edited.
_REPLACED_BY = {
    ".cpp": (".cpp", ".hip", ".cu"),
    ".cu": (".cu", ".cpp", ".hip"),
    ".s": (".s",),
    ".ptx": (),
    ".py": (),
}
_OVERLAY = "vfs.yaml"  # projects for clang have it


@dataclass(frozen=True)
class Recipe:
    """source: the name of the file that variants replace. compiler: the kind of compiler, by a name."""

    source: str
    compiler: str

    @property
    def is_clang(self) -> bool:
        """Whether the compiler is a clang, which reads one flag a line; nvcc reads its own kind of file."""
        return self.compiler in ("hipcc", "clang++")

    def refuse(self, suffix: str) -> None:
        """Raise UsageError unless a file with this suffix may take the source's place."""
        if suffix not in _REPLACED_BY[Path(self.source).suffix]:
            raise UsageError(f"this project's source is {self.source}, and a {suffix} file cannot replace it")

    def choose_flags(self, flags: Sequence[str]) -> tuple[str, ...]:
        """Return the flags of a variant as the compiler gets them: with absolute paths.

        A list of variants may come from anybody, so the flags are filtered as those of a build are.
        Raises UsageError for a flag that could make the compiler run or load code, or write files, and for
        one that the project's Makefile sets.
        """
        here = Path.cwd()
        # No program that a flag names is run, except for the one that PATH finds.
        command = CompileCommand(here / self.source, here, (self.compiler, *flags), compiler_is_given=True)
        toolchain = HipToolchain() if self.compiler == "hipcc" else CudaToolchain()
        unsafe = toolchain.find_unsafe_flags(command)
        if unsafe:
            raise UsageError(f"the flag {unsafe[0]} could do more than change the code, so it is not used")
        dropped = toolchain.find_dropped_flags(command)
        if dropped:
            raise UsageError(
                f"the flag {dropped[0]} is not used: the project's Makefile sets inputs, outputs, targets "
                "and what the compiler does"
            )
        return toolchain.choose_flags(command)


def read_recipe(project: Path) -> Recipe | None:
    """Read a project's recipe; None if it has no source, or more than one, or kc-generate did not make it."""
    written = list_written_files(project)
    sources = [name for suffix in _REPLACED_BY if (project / (name := _STEM + suffix)).is_file()]
    if len(sources) != 1 or sources[0] not in written or "Makefile" not in written:
        return None
    return Recipe(sources[0], _find_compiler(project, sources[0]))


def _find_compiler(project: Path, source: str) -> str:
    is_hip = not source.endswith(".cu")
    if is_hip or (project / _OVERLAY).is_file():
        return "hipcc" if is_hip else "clang++"
    return "libnvrtc.so" if (project / SCRIPT).is_file() else "nvcc"
