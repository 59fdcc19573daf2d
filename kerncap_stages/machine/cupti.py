"""Where CUPTI, NVIDIA's profiling interface, may be: few loaders find it by themselves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.machine.python_packages import package_folders

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# Our native parts read the paths from this variable, between colons, and take the first that loads.
CUPTI = "KERNCAP_CUPTI"


def cupti_libraries(base: Mapping[str, str]) -> Iterator[Path]:
    """Yield the CUPTI libraries of toolkits and of Python packages, those of the newest CUDA first."""
    folders = [
        Path(base[name]) / part
        for name in ("CUDA_HOME", "CUDA_PATH")
        if base.get(name)
        for part in ("extras/CUPTI/lib64", "lib64", "lib")
    ]
    folders += [Path("/usr/local/cuda") / part for part in ("extras/CUPTI/lib64", "lib64", "lib")]
    for packages in package_folders(base):
        folders += [packages / "nvidia/cu13/lib", packages / "nvidia/cuda_cupti/lib"]
    found: dict[Path, Path] = {}
    for folder in folders:
        # By the loader's names, which bear CUDA's version; CUPTI's own is a year.
        for path in folder.glob("libcupti.so.[0-9][0-9]"):
            found.setdefault(path.resolve(), path)
    yield from sorted(found.values(), key=lambda path: path.suffix, reverse=True)


def cupti_paths(base: Mapping[str, str]) -> str:
    """What the variable has to say: the user's own word, else all that is found; empty if that is nothing."""
    named = base.get(CUPTI)
    return ":".join(map(str, cupti_libraries(base))) if named is None else named
