"""Running statistics of dispatch times by kernel and launch shape. Memory does not grow with calls."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt


@dataclass(frozen=True)
class ShapeKey:
    """A launch shape."""

    grid_work_items: tuple[int, int, int]
    block_work_items: tuple[int, int, int]
    lds_bytes: int


@dataclass
class Tally:
    """Times of one kernel. ``squares`` is the sum of squared distances from the mean (Welford, merged)."""

    calls: int = 0
    total_ns: int = 0
    min_ns: int = 0
    max_ns: int = 0
    squares: float = 0.0
    shapes: dict[ShapeKey, tuple[int, int]] = field(default_factory=dict)
    last: tuple[int, ShapeKey] | None = None  # end time and shape of the dispatch that ended last

    def add(self, durations_ns: npt.NDArray[np.int64]) -> None:
        """Add durations: int64[n], n > 0."""
        count, total = len(durations_ns), int(durations_ns.sum())
        mean = total / count
        squares = float(((durations_ns - mean) ** 2).sum())
        low, high = int(durations_ns.min()), int(durations_ns.max())
        self._merge(count, total, squares, low, high)

    def merge(self, other: Tally) -> None:
        """Add another tally of the same kernel."""
        if other.calls:
            self._merge(other.calls, other.total_ns, other.squares, other.min_ns, other.max_ns)
        for shape, (calls, total) in other.shapes.items():
            had = self.shapes.get(shape, (0, 0))
            self.shapes[shape] = (had[0] + calls, had[1] + total)
        if other.last is not None:
            self.note_end(*other.last)

    def note_end(self, end_ns: int, shape: ShapeKey) -> None:
        """Note when a dispatch ended, and its shape: an autotuner launches the best shape last."""
        if self.last is None or end_ns >= self.last[0]:
            self.last = (end_ns, shape)

    def _merge(self, count: int, total: int, squares: float, low: int, high: int) -> None:
        if self.calls == 0:
            self.calls, self.total_ns, self.squares, self.min_ns, self.max_ns = (
                count,
                total,
                squares,
                low,
                high,
            )
            return
        apart = total / count - self.mean_ns
        self.squares += squares + apart * apart * self.calls * count / (self.calls + count)
        self.calls += count
        self.total_ns += total
        self.min_ns, self.max_ns = min(self.min_ns, low), max(self.max_ns, high)

    @property
    def mean_ns(self) -> float:
        """Mean duration."""
        return self.total_ns / self.calls if self.calls else 0.0

    @property
    def stddev_ns(self) -> float:
        """Standard deviation of the sample; 0 for a single call."""
        return math.sqrt(max(0.0, self.squares) / (self.calls - 1)) if self.calls > 1 else 0.0


def tally_records(records: npt.NDArray[np.void], tallies: dict[int, Tally]) -> None:
    """Add dispatch records to the tallies of their kernels."""
    durations = (records["end_ns"] - records["start_ns"]).astype(np.int64)
    # A clock that went backwards, or a missing timestamp, must not become a duration of centuries.
    durations = np.where(durations < 0, 0, durations)
    for kernel in np.unique(records["kernel"]):
        chosen = records["kernel"] == kernel
        tally = tallies.setdefault(int(kernel), Tally())
        tally.add(durations[chosen])
        _add_shapes(tally, records[chosen], durations[chosen])


def _add_shapes(tally: Tally, records: npt.NDArray[np.void], durations: npt.NDArray[np.int64]) -> None:
    columns = np.column_stack(
        (records["grid_work_items"], records["block"][:, :3], records["group_bytes"])
    ).astype(np.int64)
    shapes, which = np.unique(columns, axis=0, return_inverse=True)
    calls = np.bincount(which.ravel(), minlength=len(shapes))
    totals = np.bincount(which.ravel(), weights=durations, minlength=len(shapes))
    for shape, count, total in zip(shapes.tolist(), calls.tolist(), totals.tolist(), strict=True):
        key = _make_key(shape)
        had = tally.shapes.get(key, (0, 0))
        tally.shapes[key] = (had[0] + count, had[1] + int(total))
    last = int(np.argmax(records["end_ns"]))
    tally.note_end(int(records["end_ns"][last]), _make_key(columns[last].tolist()))


def _make_key(columns: Sequence[int]) -> ShapeKey:
    x, y, z, block_x, block_y, block_z, lds_bytes = columns
    return ShapeKey((x, y, z), (block_x, block_y, block_z), lds_bytes)
