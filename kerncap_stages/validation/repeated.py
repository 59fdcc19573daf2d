"""Replays of the captured kernel from the captured state: whether it does the same each time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerncap_stages.replaying.variant import runtime_regions
from kerncap_stages.validation.host_writes import host_writes
from kerncap_stages.validation.states import changed_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kerncap_stages.digest import MemoryRef
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.store import Store
    from kerncap_stages.validation.runs import Baselines, Run

_MOST_REPLAYS = 8


class Repeated:
    """As many replays as it takes to tell."""

    def __init__(self, store: Store, capture: Capture, baselines: Baselines) -> None:
        """``baselines`` makes the replays."""
        self._store = store
        self._capture = capture
        self._baselines = baselines

    def replays(self, count: int, golden: Mapping[int, MemoryRef] | None) -> list[Run]:
        """Replays of the baseline, up to one that fails.

        As long as they agree with each other and not with the golden state there are more: a kernel that
        is not deterministic may well do the same twice.
        """
        runs: list[Run] = []
        while len(runs) < max(count, _MOST_REPLAYS):
            if len(runs) >= count and not self._is_odd(runs, golden or {}):
                break
            runs.append(self._baselines.run(len(runs)))
            if not runs[-1].completed:
                break
        return runs

    def _is_odd(self, runs: list[Run], golden: Mapping[int, MemoryRef]) -> bool:
        """Whether a region is the same after all replays and another than in the golden state."""
        compared = golden.keys() - runtime_regions(self._capture)
        states = {base: {run.outputs.get(base) for run in runs} for base in compared}
        odd = {base for base, seen in states.items() if len(seen) == 1 and golden[base] not in seen}
        by_host = host_writes(self._store, self._capture, golden, runs[0]) if odd else []
        odd -= {
            part.region.base_address
            for part in by_host
            if part.expected in states.get(part.region.base_address, ())
        }
        return bool(odd)

    def unsteady(self, runs: list[Run]) -> dict[int, int]:
        """Bytes that differ between replays, by the region they are in."""
        first, *others = runs
        found: dict[int, int] = {}
        for base, state in first.outputs.items():
            count = sum(changed_bytes(self._store, state, other.outputs[base]) for other in others)
            if count:
                found[base] = count
        return found
