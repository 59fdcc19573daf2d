"""What a validation is asked for."""

from __future__ import annotations

from dataclasses import dataclass, field

from kerncap_stages.bounds import Bounds

# Replays at the same time need memory for each; what is larger is replayed one after the other.
MOST_BYTES_AT_ONCE = 2 << 30


@dataclass(frozen=True)
class Settings:
    """How to compare. ``default_type``: of all outputs, whatever the kernel's arguments say of them."""

    bounds: Bounds = field(default_factory=Bounds)
    default_type: str | None = None
    timeout_s: float = 300.0
    baseline_runs: int = 2
    perturb: bool = True
    variant_runs: int | None = None  # from the captured state; none: as many as take next to no time
