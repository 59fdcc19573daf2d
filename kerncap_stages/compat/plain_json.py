"""Make results fit JSON, which has no number for NaN or infinity."""

from __future__ import annotations

import math


def replace_non_finite(value: object) -> object:
    """Return a copy with null for every number that is not finite."""
    if isinstance(value, dict):
        return {name: replace_non_finite(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [replace_non_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
