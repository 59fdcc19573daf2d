"""Projects of the CUDA tree under tests/programs, its kernels, and the marks of tests that need nvcc."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cuda_captures import why_no_nvcc

from kerncap_stages.generate.engine import run_generate
from kerncap_stages.project.checkout import check_out
from kerncap_stages.rocm_root.enter import MARKER

if TYPE_CHECKING:
    from kerncap_stages.digest import Digest
    from kerncap_stages.store import Store

# In the project's own root, nvcc and ninja are part of the environment: there these tests always run.
NEEDS_NVCC = [
    pytest.mark.nvcc,
    pytest.mark.skipif(bool(why_no_nvcc()) and not MARKER.exists(), reason=why_no_nvcc()),
]
TREE = Path(__file__).parents[1] / "programs/cuda_tree"
SCALE = "_ZN4rows5scaleIfEEvPT_S1_5Shape"
PLAIN = "_Z5plainPfi"


def project_of(store: Store, source: Digest, folder: Path) -> Path:
    """Generate the project of a located kernel, and check it out into ``folder``."""
    made, reproducer = run_generate(store, source)
    check_out(store, made, reproducer, folder, force=False)
    return folder


def make(folder: Path, *targets: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["make", "-C", folder, *targets], capture_output=True, text=True, check=False)
