"""Times are compared only among equal GPUs: a search on nodes of several kinds would prefer the kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerncap_stages.errors import UsageError

if TYPE_CHECKING:
    from kerncap_stages.manifests.evaluation import EvaluatedVariant


def require_one_device(known: str | None, variant: EvaluatedVariant) -> str | None:
    """Return the GPU that a variant was timed on, or ``known``, the GPU of the search.

    None: there was no time yet that depends on a GPU. Raises UsageError if the two differ.
    """
    found = sorted({*variant.devices, *({known} if known is not None else ())})
    if len(found) > 1:
        raise UsageError(
            f"times from different GPUs do not compare: {'; '.join(found)}",
            hint="name nodes with one kind of GPU, as --on 'slurm --partition=NAME' does",
        )
    return found[0] if found else None
