"""Take one GPU kernel out of a running program: profile, capture, locate, generate, replay, validate."""

from __future__ import annotations

# typing's, which mypy knows by its name: executables begin here, and loading typing takes time.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from kerncap_stages.compat.client import Kerncap as Kerncap
    from kerncap_stages.compat.results import (
        ExtractResult as ExtractResult,
    )
    from kerncap_stages.compat.results import (
        KernelStat as KernelStat,
    )
    from kerncap_stages.compat.results import (
        ReplayResult as ReplayResult,
    )
    from kerncap_stages.compat.results import (
        ValidationResult as ValidationResult,
    )

__version__ = "0.1.0"

_RESULTS = ("ExtractResult", "KernelStat", "ReplayResult", "ValidationResult")


def __getattr__(name: str) -> object:
    """Load the class and its results on first use: no executable pays for them."""
    if name == "Kerncap":
        from kerncap_stages.compat.client import Kerncap

        return Kerncap
    if name in _RESULTS:
        from kerncap_stages.compat import results

        return getattr(results, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
