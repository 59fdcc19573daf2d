"""Finds programs of CUDA's toolkit."""

from __future__ import annotations

import os
import shutil

from kerncap_stages.machine.python_packages import find_package_folders

# nvidia-cuda-nvcc and its companions; Triton brings ptxas and cuobjdump.
_IN_PACKAGES = ("nvidia/cu13/bin", "triton/backends/nvidia/bin")


def find_cuda_tool(name: str) -> str | None:
    """Find a program of the toolkit: on PATH, in the toolkit's usual places, or in a Python package."""
    homes = [os.environ.get(variable, "") for variable in ("CUDA_HOME", "CUDA_PATH")]
    folders = [f"{home}/bin" for home in (*homes, "/usr/local/cuda") if home]
    folders += [
        str(packages / place) for packages in find_package_folders(os.environ) for place in _IN_PACKAGES
    ]
    return shutil.which(name) or shutil.which(name, path=":".join(folders))
