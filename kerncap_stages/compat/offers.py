"""List the kernels that a shell offers for an argument."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerncap_stages.collect.selection import strip_parameters
from kerncap_stages.manifests import load_as
from kerncap_stages.manifests.profile import Profile
from kerncap_stages.store import Store
from kerncap_stages.text.terminal import make_printable

if TYPE_CHECKING:
    from pathlib import Path


def list_latest_kernels(store_folder: Path | None) -> list[tuple[str, str]]:
    """List the latest profile's kernels without parameters, each with its share of the time.

    Leaves out names with characters that a terminal cannot show.
    """
    store = Store.open(store_folder, create=False)
    kernels = load_as(store, store.resolve("@profile"), Profile).kernels
    offers = ((strip_parameters(kernel.name), f"{kernel.share:.1%} of the GPU time") for kernel in kernels)
    return [(name, share) for name, share in offers if make_printable(name) == name]
