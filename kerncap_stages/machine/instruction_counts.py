"""Reads the instruction counts of the software GPU: the instructions of each dispatch, by class.

For a program that runs with ``SoftGpu(count=FILE)``, or under ``kc-softgpu --count-file FILE``, the software
GPU appends a line to the file for each dispatch, before it sets the dispatch's completion signal. A line is a
JSON object; docs/software-gpu.md lists its members.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kerncap_stages.errors import ArtifactError

if TYPE_CHECKING:
    from pathlib import Path

VERSION = 1


@dataclass(frozen=True)
class DispatchCount:
    """A dispatch that completed. An instruction counts once for each wavefront that executes it."""

    pid: int
    target: str
    gpu: int
    queue: int
    dispatch: int  # the packet's index in its queue
    kernel: str  # demangled
    symbol: str  # as the code object has it
    grid_work_items: tuple[int, int, int]
    group_work_items: tuple[int, int, int]
    wave_instructions: int
    by_class: dict[str, int]
    # Of each range of memory that was asked for: bytes read before they were written, and bytes written.
    accesses: tuple[tuple[int, int], ...] | None = None


def read_counts(path: Path) -> list[DispatchCount]:
    """Return the dispatches in a file of counts, in the order in which they completed.

    Raises ArtifactError for a line that is not a count of this version.
    """
    return [_parse(path, number, line) for number, line in enumerate(path.read_text().splitlines(), start=1)]


def _parse(path: Path, number: int, line: str) -> DispatchCount:
    try:
        fields: dict[str, Any] = json.loads(line)
        version = fields.pop("version")
        for name in ("grid_work_items", "group_work_items"):
            fields[name] = tuple(fields[name])
        if "accesses" in fields:
            fields["accesses"] = tuple((read, written) for read, written in fields["accesses"])
        count = DispatchCount(**fields) if version == VERSION else None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ArtifactError(
            f"{path}:{number}: not an instruction count",
            hint="run the program again: a full disk may have cut the line off",
        ) from error
    if count is None:
        raise ArtifactError(
            f"{path}:{number}: instruction count of version {version}; this release reads version {VERSION}",
            hint="run the program again on the software GPU of this installation",
        )
    return count
