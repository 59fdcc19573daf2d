"""Checks the time limits that users give, in seconds."""

from __future__ import annotations

from kerncap_stages.errors import UsageError

_MAX_SECONDS = 1_000_000  # eleven days: a longer limit is a mistake


def check_seconds(option: str, seconds: float | None) -> None:
    """Raise UsageError for a time limit that is zero, negative, not a number or too large."""
    if seconds is not None and not 0 < seconds <= _MAX_SECONDS:
        raise UsageError(
            f"{option} takes seconds, more than 0 and at most {_MAX_SECONDS:,}, not {seconds:g}",
            hint=f"{option} 60",
        )
