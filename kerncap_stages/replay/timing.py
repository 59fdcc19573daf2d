"""Computes statistics of repeated runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kerncap_stages.manifests.replay import Comparison
from kerncap_stages.manifests.timing import TimeSource, TimingSummary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kerncap_stages.manifests.source import Unedited
    from kerncap_stages.manifests.timing import Work


def summarise(
    samples_ns: Sequence[int],
    source: TimeSource,
    instructions: int | None = None,
    work: Work | None = None,
) -> TimingSummary | None:
    """Return statistics of repeated runs; None if there were no runs.

    ``instructions``, ``work``: of one dispatch, if known.
    """
    if not samples_ns:
        return None
    values = np.asarray(samples_ns, dtype=np.int64)
    low, median, high = np.percentile(values, [5, 50, 95])
    return TimingSummary(
        source=source,
        samples_ns=tuple(int(value) for value in values),
        min_ns=int(values.min()),
        median_ns=float(median),
        mean_ns=float(values.mean()),
        p05_ns=float(low),
        p95_ns=float(high),
        max_ns=int(values.max()),
        stddev_ns=float(values.std(ddof=1)) if len(values) > 1 else 0.0,
        instructions=instructions,
        work=work,
    )


def compare(baseline: TimingSummary, variant: TimingSummary, unedited: Unedited | None = None) -> Comparison:
    """Compare runs that alternated: each pair ran under the same conditions.

    unedited: whether the unedited source of the kernel compiles to the captured instructions, if known.
    """
    pairs = [
        new / old if old else float("nan")
        for old, new in zip(baseline.samples_ns, variant.samples_ns, strict=True)
    ]
    low, middle, high = (float(value) for value in np.percentile(pairs, [5, 50, 95]))
    return Comparison(baseline=baseline, ratio=middle, ratio_p05=low, ratio_p95=high, unedited=unedited)
