"""Finds the native libraries and helper executables of this installation, or says why one is missing.

The build leaves a back end out if the headers that it needs are missing, and records that in ``build.json``.
This module loads no library: the stages pass the paths on.
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
    """A part of the native code that the build may leave out."""

    name: str
    purpose: str
    files: tuple[str, ...]
    needs: str
    left_out_reason: str | None


# name: purpose, files in lib/, what building it needs
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
def _read_build_record() -> dict[str, str]:
    try:
        record: dict[str, str] = json.loads((_PACKAGE / "build.json").read_text(encoding="utf-8"))
    except OSError:
        return {}
    return record


def describe_compiler() -> str:
    """Return the name and version of the compiler that built the native parts."""
    return _read_build_record().get("compiler", "unknown: not an installed package")


def list_native_parts() -> list[NativePart]:
    """Return every part; one that was left out has the reason."""
    record = _read_build_record()
    return [
        NativePart(name, purpose, files, needs, record.get(name, "not an installed package") or None)
        for name, (purpose, files, needs) in _PARTS.items()
    ]


def find_native_file(file: str) -> Path:
    """Return the path of a library or executable in ``lib/``.

    Raises DeviceError where the build left it out, naming the back end and what its build needs.
    """
    path = LIBRARY_FOLDER / file
    if path.exists():
        return path
    for part in list_native_parts():
        if file in part.files:
            raise DeviceError(
                f"{file} is not in this installation: the build left out {part.name} ({part.purpose}): "
                f"{part.left_out_reason or 'no reason is recorded'}",
                hint=f"install {part.needs} and build the package again; `kc-show --about` lists the parts",
            )
    raise DeviceError(f"{path} is missing: this installation is damaged", hint="install kerncap-stages again")
