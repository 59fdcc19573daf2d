"""What a shell is offered for the arguments of the front's commands."""

from __future__ import annotations

import typer


def complete_kernel(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Offer the kernels of the latest profile, by name without parameters."""
    try:
        from kerncap_stages.collect.selection import without_parameters
        from kerncap_stages.manifests.codec import load_as
        from kerncap_stages.manifests.profile import Profile
        from kerncap_stages.store import Store
        from kerncap_stages.text.terminal import printable

        store = Store.open(context.params.get("store"), create=False)
        kernels = load_as(store, store.resolve("@profile"), Profile).kernels
    except Exception:  # completing a word must never show a traceback
        return []
    offers = ((without_parameters(kernel.name), f"{kernel.share:.1%} of the GPU time") for kernel in kernels)
    return [
        (name, share) for name, share in offers if name.startswith(incomplete) and printable(name) == name
    ]
