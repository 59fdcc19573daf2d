"""Where a project is written unless the user says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.code.kernel_names import parse_kernel_name

if TYPE_CHECKING:
    from kerncap_stages.manifests import View
    from kerncap_stages.manifests.reproducer import Reproducer


def folder_name(kernel_name: str) -> str:
    """A short folder name for a kernel: letters, digits, `_`, `.` and `-` of its name before any argument."""
    cleaned = re.sub(r"[^A-Za-z0-9_.-]+", "_", parse_kernel_name(kernel_name).base).strip("_.-")
    return cleaned[:80] or "kernel"


def default_folder(reproducer: Reproducer | View) -> Path:
    """The folder of a project, below the working folder: named by its first kernel."""
    return Path("isolated") / folder_name(reproducer.kernels[0].name)
