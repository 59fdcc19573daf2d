"""Where the native libraries and helper executables of this installation are, and why one may be missing.

A back end whose headers were missing when the package was built is left out of it; the build says so in
``build.json``. Nothing here loads a library: the stages hand the paths on.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kerncap_stages.errors import DeviceError

_PACKAGE = Path(__file__).parents[1]
LIBRARY_FOLDER = _PACKAGE / "lib"


@dataclass(frozen=True)
class NativePart:
    """A piece of the native build that may be there or not."""

    name: str
    purpose: str
    files: tuple[str, ...]
    needs: str
    left_out_reason: str | None


# name: purpose, files in lib/, what building it takes
_PARTS = {
    "core": ("store, hashing and compression", (), "nanobind, OpenSSL and zstd headers"),
    "softgpu": (
        "the software GPU, for machines without one",
        ("libkerncap_softgpu.so",),
        "libdrm and kernel headers",
    ),
    "hsa": (
        "capture and replay on AMD GPUs through ROCr",
        ("libkerncap_hsa.so", "kc-replay-hsa"),
        "ROCr headers of ROCm 6.4 or later",
    ),
    "cuda": (
        "capture and replay on NVIDIA GPUs through CUDA",
        ("libkerncap_cuda.so", "kc-replay-cuda"),
        "CUDA and CUPTI headers",
    ),
}


@cache
def _build_record() -> dict[str, str]:
    try:
        record: dict[str, str] = json.loads((_PACKAGE / "build.json").read_text(encoding="utf-8"))
    except OSError:
        return {}
    return record


def compiler() -> str:
    """Return the compiler that made the native parts."""
    return _build_record().get("compiler", "unknown: not an installed package")


def native_parts() -> list[NativePart]:
    """Return every part, with the reason where it was left out."""
    record = _build_record()
    return [
        NativePart(name, purpose, files, needs, record.get(name, "not an installed package") or None)
        for name, (purpose, files, needs) in _PARTS.items()
    ]


def native_file(file: str) -> Path:
    """Return the path of a library or executable in ``lib/``.

    Raises DeviceError, naming the back end and what its build takes, where it was left out.
    """
    path = LIBRARY_FOLDER / file
    if path.exists():
        return path
    for part in native_parts():
        if file in part.files:
            raise DeviceError(
                f"{file} is not in this installation: {part.name} ({part.purpose}) was left out when it was "
                f"built: {part.left_out_reason or 'no reason is recorded'}",
                hint=f"install {part.needs} and build the package again; `kc-show --about` lists the parts",
            )
    raise DeviceError(f"{path} is missing: this installation is damaged", hint="install kerncap-stages again")
