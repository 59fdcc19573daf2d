"""Whether a variant does the same each time: a race, or memory of its own, shows in no single run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerncap_stages.replaying.runner import Repeats
from kerncap_stages.validation.settings import MOST_BYTES_AT_ONCE

if TYPE_CHECKING:
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.validation.runs import Run
    from kerncap_stages.validation.settings import Settings

# From the captured state, as many as end within that time: on a GPU of silicon most often all of them.
_MOST_RUNS = 32
_BUDGET_MS = 100
# Of what is put back whole between runs; of more, what the captured kernel writes.
_MOST_REGIONS = 1000
_MOST_SOFTWARE_BYTES = 256 << 20
# With bounds, what a further run leaves has to be compared itself: of so many.
_KEPT_WITH_BOUNDS = 3


def further_runs(settings: Settings, start: Capture, *, is_changed: bool) -> Repeats | None:
    """How often a variant is run again from a state; ``is_changed``: not the captured one.

    From a changed state a kernel may write other bytes than it did, so all of it has to be put back.
    """
    wanted = settings.variant_runs or _MOST_RUNS
    if wanted == 1 or not start.has_post:
        return None
    is_small = _is_small(start)
    if is_changed:
        return Repeats(1, budget_ms=0) if is_small else None
    budget_ms = _BUDGET_MS if settings.variant_runs is None else int(settings.timeout_s * 500)
    kept = 1 if settings.bounds.exact else _KEPT_WITH_BOUNDS
    return Repeats(wanted - 1, budget_ms, kept, restore_all=is_small)


def _is_small(capture: Capture) -> bool:
    """Whether putting all of the state back costs next to nothing: it is copied region by region."""
    is_software = capture.environment.devices[capture.dispatch.device_index].software
    most_bytes = _MOST_SOFTWARE_BYTES if is_software else MOST_BYTES_AT_ONCE
    size_bytes = sum(region.size_bytes for region in capture.regions)
    return size_bytes <= most_bytes and len(capture.regions) <= _MOST_REGIONS


def unsteady_note(run: Run) -> str:
    """What people are told of a variant whose runs differ."""
    return (
        f"not deterministic: {run.differing_runs} of {run.further_runs} further runs of the variant from the "
        "same state left something else than its first: a race, or memory of its own that it keeps"
    )
