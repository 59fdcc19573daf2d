"""The options of a search for a source."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kerncap_stages.store.remembered import make_request_key

if TYPE_CHECKING:
    from pathlib import Path

    from kerncap_stages.digest import Digest

# Variables that change which compiler is found, or the meaning of a compile command.
_ENVIRONMENT = (
    "PATH",
    *("CPATH", "CPLUS_INCLUDE_PATH"),
    *("HIPCC_COMPILE_FLAGS_APPEND", "HIP_CLANG_PATH", "HIP_PATH", "ROCM_PATH"),
    *("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN", "CUDA_HOME", "CUDA_PATH"),
)


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
