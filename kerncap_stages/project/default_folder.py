"""Chooses the folder that a project is written into if the user gives none."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.code.kernel_names import parse_kernel_name

if TYPE_CHECKING:
    from kerncap_stages.manifests import View
    from kerncap_stages.manifests.reproducer import Reproducer


def make_folder_name(kernel_name: str) -> str:
    """Make a short folder name from a kernel's base name: only letters, digits, `_`, `.` and `-` are kept."""
    cleaned = re.sub(r"[^A-Za-z0-9_.-]+", "_", parse_kernel_name(kernel_name).base).strip("_.-")
    return cleaned[:80] or "kernel"


def choose_default_folder(reproducer: Reproducer | View) -> Path:
    """Return the folder of a project, below the working folder and named after its first kernel."""
    return Path("isolated") / make_folder_name(reproducer.kernels[0].name)
