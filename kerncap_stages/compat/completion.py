"""What a shell is offered for the arguments of the front's commands."""

from __future__ import annotations

import typer


def complete_kernel(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Offer the kernels of the latest profile, by name without parameters."""
    try:
        from kerncap_stages.compat.offers import kernels_of_latest_profile

        offers = kernels_of_latest_profile(context.params.get("store"))
    except Exception:  # completing a word must never show a traceback
        return []
    return [(name, share) for name, share in offers if name.startswith(incomplete)]
