"""Convert a profile to the documented forms."""

from __future__ import annotations

import shlex
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from kerncap_stages.compat.results import KernelStat

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kerncap_stages.manifests.profile import Profile


def make_kernel_stats(profile: Profile) -> list[KernelStat]:
    """Return the documented form of each kernel of a profile."""
    return [
        KernelStat(
            name=kernel.name,
            calls=kernel.calls,
            total_duration_ns=kernel.total_ns,
            avg_duration_ns=round(kernel.mean_ns),
            percentage=kernel.share * 100,
            min_duration_ns=kernel.min_ns,
            max_duration_ns=kernel.max_ns,
            stddev_ns=kernel.stddev_ns,
        )
        for kernel in profile.kernels
    ]


def make_profile_object(command: Sequence[str], kernels: Sequence[KernelStat]) -> dict[str, Any]:
    """Make the documented JSON object of a profile."""
    return {
        "cmd": shlex.join(command),
        "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "kernels": [asdict(kernel) for kernel in kernels],
    }
