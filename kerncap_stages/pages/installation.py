"""Describe this installation: versions, native parts and why one is missing; and this machine."""

from __future__ import annotations

import dataclasses
import platform
import sys
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from kerncap_stages import __version__
from kerncap_stages.machine import native_paths
from kerncap_stages.pages.this_machine import describe_machine

_LIBRARIES = ("typer", "rich", "pydantic", "numpy", "zstandard", "jinja2")


def describe_installation() -> dict[str, Any]:
    """Return the facts, for the page and for ``--json``."""
    return {
        "kerncap_stages": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "installed_in": str(native_paths.LIBRARY_FOLDER.parent),
        "executable": sys.executable,
        "libraries": {name: _find_version(name) for name in _LIBRARIES},
        "compiler": native_paths.describe_compiler(),
        "native_version": _find_native_version(),
        "native_parts": [_describe_part(part) for part in native_paths.list_native_parts()],
        **describe_machine(),
    }


def _describe_part(part: native_paths.NativePart) -> dict[str, Any]:
    absent = [file for file in part.files if not (native_paths.LIBRARY_FOLDER / file).exists()]
    built = part.left_out_reason is None
    return dataclasses.asdict(part) | {"built": built, "missing_files": absent if built else []}


def _find_version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _find_native_version() -> str | None:
    try:
        return str(import_module("kerncap_stages._native").version())
    except ImportError:
        return None
