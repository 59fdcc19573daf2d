"""What a search for a source is asked for."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kerncap_stages.store.remembered import request_key

if TYPE_CHECKING:
    from pathlib import Path

    from kerncap_stages.digest import Digest

# What changes the meaning of a compile command without standing in it, and which compiler is found.
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

    def key(self, capture: Digest) -> Digest:
        """What the answer depends on besides the files that it names itself: half of a two-step key."""
        return request_key(
            "locate",
            capture=capture,
            source_dirs=[str(folder.resolve()) for folder in self.source_dirs],
            compile_commands=str(self.compile_commands.resolve()) if self.compile_commands else None,
            defines=self.defines,
            compiler=self.compiler,
            environment={name: os.environ.get(name, "") for name in _ENVIRONMENT},
        )
