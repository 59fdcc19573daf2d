"""The options of a search for a source."""

from __future__ import annotations

import os
import re
import shlex
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.compilers.consulted import SOURCE_SUFFIXES
from kerncap_stages.errors import UsageError
from kerncap_stages.store.remembered import make_request_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kerncap_stages.digest import Digest

# Variables that change which compiler is found, or the meaning of a compile command.
_ENVIRONMENT = (
    "PATH",
    *("CPATH", "CPLUS_INCLUDE_PATH"),
    *("HIPCC_COMPILE_FLAGS_APPEND", "HIP_CLANG_PATH", "HIP_PATH", "ROCM_PATH"),
    *("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN", "CUDA_HOME", "CUDA_PATH"),
)

# NAME, or NAME(PARAMETERS): compilers take both, also with a dollar sign.
_MACRO = re.compile(r"(?:[^\W\d]|\$)[\w$]*(\([^()]*\))?")


def check_macros(defines: Sequence[str]) -> None:
    """Raise UsageError for a macro that no compiler would define: ``NAME`` or ``NAME=VALUE`` is wanted."""
    for define in defines:
        name = define.partition("=")[0]
        if _MACRO.fullmatch(name) is None:
            why = f"{name!r} is no name of a macro" if name.strip() else "the name of the macro is missing"
            raise UsageError(f"-D {define}: {why}", hint="-D NAME or -D NAME=VALUE")


def check_source_folders(folders: Sequence[Path], *, may_be_programs: bool = False) -> None:
    """Raise UsageError for what is neither a folder nor a source file.

    may_be_programs: for CUDA kernels PTX is also taken from programs, libraries and ``.ptx`` that are named.
    """
    for folder in folders:
        if folder.is_dir() or (folder.exists() and (may_be_programs or is_source_file(folder))):
            continue
        if folder.exists():
            raise UsageError(
                f"--source-dir {folder}: it is a file, but no source of C++, HIP, CUDA or Python",
                hint="give the source file that has the kernel, or its folder: "
                f"--source-dir {shlex.quote(str(folder.parent))}",
            )
        raise UsageError(
            f"no such source folder or file: {folder}", hint="give the root of the kernel's source tree"
        )


def is_source_file(path: Path) -> bool:
    """Whether a path is a file whose suffix is that of source code."""
    return path.is_file() and path.suffix.lower() in (*SOURCE_SUFFIXES, ".py")


def list_folders(roots: Sequence[Path]) -> list[Path]:
    """List the folders among ``roots``, and those of the source files among them.

    Units that include a file are there, and headers and macros that it needs. The home folder and the one for
    temporary files are left out: they may hold anything.
    """
    too_large = (Path("/"), Path.home(), Path(tempfile.gettempdir()))
    beside = (root.parent for root in roots if is_source_file(root))
    folders = (
        *(root for root in roots if root.is_dir()),
        *(each for each in beside if each not in too_large),
    )
    return list(dict.fromkeys(folders))


@dataclass(frozen=True)
class Options:
    """Where to look, and how the project is built."""

    source_dirs: tuple[Path, ...] = ()
    compile_commands: Path | None = None
    defines: tuple[str, ...] = ()
    compiler: str | None = None

    def make_key(self, capture: Digest) -> Digest:
        """Make the key of a search. The files that the result depends on are listed in the result itself."""
        return make_request_key(
            "locate",
            capture=capture,
            source_dirs=[str(folder.resolve()) for folder in self.source_dirs],
            compile_commands=str(self.compile_commands.resolve()) if self.compile_commands else None,
            defines=self.defines,
            compiler=self.compiler,
            environment={name: os.environ.get(name, "") for name in _ENVIRONMENT},
        )
