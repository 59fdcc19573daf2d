"""The documented package ``kerncap``: class ``Kerncap`` and its results, from ``kerncap_stages``."""

from kerncap_stages import (
    ExtractResult,
    Kerncap,
    KernelStat,
    ReplayResult,
    ValidationResult,
    __version__,
)

__all__ = ["ExtractResult", "Kerncap", "KernelStat", "ReplayResult", "ValidationResult", "__version__"]
