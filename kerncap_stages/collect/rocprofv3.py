"""Makes a profile from rocprofv3's CSV files."""

from __future__ import annotations

import csv
import math
from typing import TYPE_CHECKING

import numpy as np

from kerncap_stages import __version__
from kerncap_stages.collect.ranking import rank_kernels
from kerncap_stages.collect.statistics import ShapeKey, Tally
from kerncap_stages.errors import ArtifactError
from kerncap_stages.manifests import dump
from kerncap_stages.manifests.profile import Profile
from kerncap_stages.manifests.timing import TimeSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from kerncap_stages.digest import Digest
    from kerncap_stages.store import Store

_STATISTICS = {"Name", "Calls", "TotalDurationNs"}
_HOW_TO_MAKE = "make one with `rocprofv3 --kernel-trace --stats --output-format csv -- ./app`"
_TRACE = {"Kernel_Name", "Start_Timestamp", "End_Timestamp"}


def import_profile(
    store: Store, paths: Sequence[Path], warn: Callable[[str], None] = lambda _text: None
) -> tuple[Digest, Profile]:
    """Publish one profile from all of the given kernel statistics and kernel trace files.

    An empty file lists no kernels; ``warn`` gets its name. Raises ArtifactError for a file that is neither.
    """
    tallies: dict[tuple[str | None, str], Tally] = {}
    for path in paths:
        for name, tally in _read(path, warn):
            tallies.setdefault((None, name), Tally()).merge(tally)
    profile = Profile(
        made_by=f"kerncap-stages {__version__}",
        environment=None,
        program=None,
        time_source=TimeSource.IMPORTED,
        imported_from="rocprofv3",
        kernels=rank_kernels(tallies),
    )
    with store.begin_transaction() as transaction:
        digest = transaction.publish(dump(profile), "profile", [])
    return digest, profile


def _read(path: Path, warn: Callable[[str], None]) -> Iterable[tuple[str, Tally]]:
    try:
        with path.open(encoding="utf-8", errors="replace", newline="") as file:
            rows = csv.DictReader(file)
            if rows.fieldnames is None:
                warn(f"{path} is empty: it lists no kernels")
                return []
            columns = set(rows.fieldnames)
            if columns >= _TRACE:
                return list(_read_trace(rows))
            if columns >= _STATISTICS:
                return list(_read_statistics(rows))
    except OSError as error:
        raise ArtifactError(f"cannot read {path}: {error.strerror}", hint=_HOW_TO_MAKE) from error
    except (ValueError, KeyError, TypeError, ArithmeticError) as error:
        raise ArtifactError(
            f"{path}, line {rows.line_num}: not in rocprofv3's format ({error})", hint=_HOW_TO_MAKE
        ) from error
    raise ArtifactError(
        f"{path} is neither a kernel statistics file nor a kernel trace of rocprofv3", hint=_HOW_TO_MAKE
    )


def _read_statistics(rows: Iterable[dict[str, str]]) -> Iterable[tuple[str, Tally]]:
    for row in rows:
        calls, total = int(row["Calls"]), int(row["TotalDurationNs"])
        if calls < 1:
            continue
        deviation = float(row.get("StdDev") or 0.0)
        low = int(float(row.get("MinNs") or total / calls))
        high = int(float(row.get("MaxNs") or total / calls))
        squares = 0.0 if math.isnan(deviation) else deviation * deviation * (calls - 1)
        yield _clean_name(row["Name"]), Tally(calls, total, low, high, squares)


def _read_trace(rows: Iterable[dict[str, str]]) -> Iterable[tuple[str, Tally]]:
    for row in rows:
        duration = int(row["End_Timestamp"]) - int(row["Start_Timestamp"])
        tally = Tally()
        tally.add(np.asarray([max(0, duration)], dtype=np.int64))
        if row.get("Grid_Size_X"):
            grid = tuple(int(row[f"Grid_Size_{axis}"]) for axis in "XYZ")
            block = tuple(int(row[f"Workgroup_Size_{axis}"]) for axis in "XYZ")
            lds = int(row.get("LDS_Block_Size") or 0)
            shape = ShapeKey(grid, block, lds)  # type: ignore[arg-type]
            tally.shapes[shape] = (1, max(0, duration))
            tally.note_end(int(row["End_Timestamp"]), shape)
        yield _clean_name(row["Kernel_Name"]), tally


def _clean_name(written: str) -> str:
    """Strip the suffix that marks the symbol of a kernel's descriptor."""
    name = written.removesuffix(" [clone .kd]").removesuffix(".kd")
    if not name:
        raise ValueError("a kernel without a name")
    return name
