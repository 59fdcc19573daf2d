"""Limits of time that users give, in seconds."""

from __future__ import annotations

from kerncap_stages.errors import UsageError

_MOST_SECONDS = 1_000_000  # eleven days: what is more is a mistake


def check_seconds(option: str, seconds: float | None) -> None:
    """Refuse a time that is none: zero, negative, infinite or no number. Raises UsageError."""
    if seconds is not None and not 0 < seconds <= _MOST_SECONDS:
        raise UsageError(
            f"{option} takes seconds, more than 0 and at most {_MOST_SECONDS:,}, not {seconds:g}",
            hint=f"{option} 60",
        )
