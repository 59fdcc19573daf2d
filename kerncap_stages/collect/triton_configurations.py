"""Gives the kernels of a profile the functions and configurations that Triton compiled them from."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from kerncap_stages.inside.kerncap_triton.files import (
    CONFIGURATION_PREFIX,
    RECORD_SUFFIX,
    name_configuration,
)
from kerncap_stages.manifests.triton import TritonConfiguration
from kerncap_stages.text.configurations import format_configuration, has_values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path
    from typing import Any

    from kerncap_stages.manifests.profile import KernelStatistics

CodeKey = tuple[str, int]  # a kernel's mangled name, and the checksum of its code object; 0 if it has none


class WantedConfiguration:
    """What a Triton kernel must have been compiled with to be captured. No values: any kernel is."""

    def __init__(
        self, values: Mapping[str, str], find: Callable[[str, int], TritonConfiguration | None]
    ) -> None:
        self._values = values
        self._find = find
        self.is_loaded = False
        self.others: list[str] = []  # of the kernels that do not fit; empty for one that is not Triton's

    def fits(self, symbol: str, checksum: int) -> bool:
        """Whether a loaded code object was compiled so, by its kernel and checksum."""
        if not self._values:
            return True
        made = self._find(symbol, checksum)
        if made is not None and has_values(made.values, self._values):
            self.is_loaded = True
            return True
        self.others.append("" if made is None else format_configuration(made.values))
        return False


def read_configurations(folder: Path) -> dict[CodeKey, dict[str, Any]]:
    """Return what the program's Python recorded of each kernel. What cannot be read is left out."""
    read = map(_read, folder.glob(f"{CONFIGURATION_PREFIX}*{RECORD_SUFFIX}"))
    return {key: record for key, record, _ in filter(None, read)}


def find_configuration(folder: Path, symbol: str, checksum: int) -> TritonConfiguration | None:
    """Return what the program's Python recorded of a code object, by its kernel and checksum."""
    read = _read(folder / name_configuration(symbol, checksum)) if checksum else None
    return read[2] if read is not None and read[0] == (symbol, checksum) else None


def _read(path: Path) -> tuple[CodeKey, dict[str, Any], TritonConfiguration] | None:
    try:
        record = json.loads(path.read_bytes())
        key = (str(record.pop("symbol")), int(record.pop("checksum")))
        return key, record, TritonConfiguration.model_validate(record)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None  # the program may write there


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
