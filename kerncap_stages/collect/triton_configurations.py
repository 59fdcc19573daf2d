"""Gives the kernels of a profile the functions and configurations that Triton compiled them from."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from kerncap_stages.inside.kerncap_triton.files import CONFIGURATION_PREFIX, RECORD_SUFFIX
from kerncap_stages.manifests.triton import TritonConfiguration

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path
    from typing import Any

    from kerncap_stages.manifests.profile import KernelStatistics

CodeKey = tuple[str, int]  # a kernel's mangled name, and the checksum of its code object; 0 if it has none


def read_configurations(folder: Path) -> dict[CodeKey, dict[str, Any]]:
    """Return what the program's Python recorded of each kernel. What cannot be read is left out."""
    found: dict[CodeKey, dict[str, Any]] = {}
    for path in folder.glob(f"{CONFIGURATION_PREFIX}*{RECORD_SUFFIX}"):
        try:
            record = json.loads(path.read_bytes())
            key = (str(record.pop("symbol")), int(record.pop("checksum")))
            TritonConfiguration.model_validate(record)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            continue  # the program may write there
        found[key] = record
    return found


def add_configurations(
    kernels: Iterable[KernelStatistics],
    recorded: Mapping[CodeKey, dict[str, Any]],
    times: Mapping[CodeKey, tuple[int, int]],
) -> tuple[KernelStatistics, ...]:
    """Return the kernels with their configurations, those with most time first.

    times: (calls, nanoseconds) of each code object. A runtime that knows kernels by name alone has none
    with a checksum; then all configurations of the name are listed, without times.
    """
    by_name: dict[str, list[CodeKey]] = {}
    for key in recorded:
        by_name.setdefault(key[0], []).append(key)
    return tuple(
        kernel.model_copy(update={"triton": _describe(by_name[kernel.mangled_name], recorded, times)})
        if kernel.mangled_name in by_name
        else kernel
        for kernel in kernels
    )


def _describe(
    keys: list[CodeKey],
    recorded: Mapping[CodeKey, dict[str, Any]],
    times: Mapping[CodeKey, tuple[int, int]],
) -> tuple[TritonConfiguration, ...]:
    timed = [key for key in keys if key in times]
    order = sorted(timed or keys, key=lambda key: (-times.get(key, (0, 0))[1], key))
    return tuple(
        TritonConfiguration.model_validate(
            recorded[key] | ({"calls": times[key][0], "total_ns": times[key][1]} if key in times else {})
        )
        for key in order
    )
