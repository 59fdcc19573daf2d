"""Finds CUPTI, NVIDIA's profiling interface: it usually lies outside the loader's search path."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.machine.python_packages import find_package_folders

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# The native parts read the paths from this variable, separated by colons, and use the first that loads.
CUPTI = "KERNCAP_CUPTI"


def find_cupti_libraries(base: Mapping[str, str]) -> Iterator[Path]:
    """Yield the CUPTI libraries of CUDA toolkits and of Python packages, newest CUDA version first."""
    folders = [
        Path(base[name]) / part
        for name in ("CUDA_HOME", "CUDA_PATH")
        if base.get(name)
        for part in ("extras/CUPTI/lib64", "lib64", "lib")
    ]
    folders += [Path("/usr/local/cuda") / part for part in ("extras/CUPTI/lib64", "lib64", "lib")]
    for packages in find_package_folders(base):
        folders += [packages / "nvidia/cu13/lib", packages / "nvidia/cuda_cupti/lib"]
    found: dict[Path, Path] = {}
    for folder in folders:
        # The loader's name (libcupti.so.13) has CUDA's version; CUPTI's full version is a year.
        for path in folder.glob("libcupti.so.[0-9][0-9]"):
            found.setdefault(path.resolve(), path)
    yield from sorted(found.values(), key=lambda path: path.suffix, reverse=True)


def choose_cupti_paths(base: Mapping[str, str]) -> str:
    """Return the variable's value: what the user set, else all libraries found; empty if there are none."""
    named = base.get(CUPTI)
    return ":".join(map(str, find_cupti_libraries(base))) if named is None else named
