"""Where CUPTI, NVIDIA's profiling interface, may be: few loaders find it by themselves."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# Our native parts read the paths from this variable, between colons, and take the first that loads.
CUPTI = "KERNCAP_CUPTI"


def cupti_libraries(base: Mapping[str, str]) -> Iterator[Path]:
    """Yield the CUPTI libraries of toolkits and of Python packages, newest first in each place."""
    folders = [
        Path(base[name]) / part
        for name in ("CUDA_HOME", "CUDA_PATH")
        if base.get(name)
        for part in ("extras/CUPTI/lib64", "lib64", "lib")
    ]
    folders += [Path("/usr/local/cuda") / part for part in ("extras/CUPTI/lib64", "lib64", "lib")]
    for entry in dict.fromkeys((*base.get("PYTHONPATH", "").split(":"), *_site_packages(base), *sys.path)):
        if entry:
            folders += [Path(entry) / "nvidia/cu13/lib", Path(entry) / "nvidia/cuda_cupti/lib"]
    seen = set()
    for folder in folders:
        for path in sorted(folder.glob("libcupti.so.[0-9]*"), reverse=True):
            if path.resolve() not in seen:
                seen.add(path.resolve())
                yield path


def _site_packages(base: Mapping[str, str]) -> Iterator[str]:
    """The packages of the Python that the program would find: PyTorch brings CUPTI with it."""
    import shutil

    for name in ("python3", "python"):
        found = shutil.which(name, path=base.get("PATH"))
        if found is None:
            continue
        # A virtual environment's interpreter is a link: its own folder counts, not where the link leads.
        root = Path(found).parent.parent
        yield from (str(path) for path in sorted(root.glob("lib/python3*/site-packages"), reverse=True))
