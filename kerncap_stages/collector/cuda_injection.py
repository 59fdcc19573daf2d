"""What a program's environment has to say for the CUDA driver to load our library into it.

The driver loads what CUDA_INJECTION64_PATH names when it starts (``cuInit``), also in programs that link the
runtime statically. CUPTI is not on every loader's path, so the places where it may be go along.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.errors import UsageError
from kerncap_stages.native_paths import native_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

INJECTION = "CUDA_INJECTION64_PATH"
CUPTI = "KERNCAP_CUPTI"


def environment(base: Mapping[str, str]) -> dict[str, str]:
    """Return what to add to a program's environment ``base``.

    Raises UsageError when another tool is to be injected, DeviceError where the back end was left out.
    """
    library = native_file("libkerncap_cuda.so")
    if base.get(INJECTION, str(library)) != str(library):
        raise UsageError(
            f"{INJECTION} already names another tool: {base[INJECTION]}",
            hint=f"run without it: env -u {INJECTION} kc-capture ...; the driver loads one such library",
        )
    added = {INJECTION: str(library)}
    if CUPTI not in base:
        found = [str(path) for path in cupti_libraries(base)]
        if found:
            added[CUPTI] = ":".join(found)
    return added


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
