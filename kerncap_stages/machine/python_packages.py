"""Finds the folders of Python packages: CUDA's libraries and programs are distributed as packages, too."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def find_package_folders(base: Mapping[str, str]) -> Iterator[Path]:
    """Yield folders of packages: of the Python that a program with these variables runs, then our own."""
    folders = (*base.get("PYTHONPATH", "").split(":"), *_find_site_packages(base), *sys.path)
    yield from (Path(folder) for folder in dict.fromkeys(folders) if folder)


def _find_site_packages(base: Mapping[str, str]) -> Iterator[str]:
    for name in ("python3", "python"):
        found = shutil.which(name, path=base.get("PATH"))
        if found is None:
            continue
        # Not resolved: a virtual environment's interpreter is a link, and its packages lie beside the link.
        root = Path(found).parent.parent
        yield from (str(path) for path in sorted(root.glob("lib/python3*/site-packages"), reverse=True))
