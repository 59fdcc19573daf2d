"""Completion of kernel names in a shell."""

from __future__ import annotations

import typer


def complete_kernel(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Offer the kernels of the latest profile, by name without parameters."""
    try:
        # Only a shell's completion needs the store and the models.
        from kerncap_stages.compat.offers import list_latest_kernels

        offers = list_latest_kernels(context.params.get("store"))
    except Exception:  # completing a word must never show a traceback
        return []
    return [(name, share) for name, share in offers if name.startswith(incomplete)]
