"""Results as JSON has them: it has no number for NaN or infinity."""

from __future__ import annotations

import math


def plain(value: object) -> object:
    """The same with null for every number that is not finite."""
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
