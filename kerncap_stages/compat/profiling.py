"""What ``Kerncap.profile`` does."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.collect.profile import ProfileOptions, run_profile
from kerncap_stages.collect.program import ProgramSpec
from kerncap_stages.compat.statistics import make_kernel_stats, make_profile_object
from kerncap_stages.errors import DeviceError
from kerncap_stages.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable
    from os import PathLike

    from kerncap_stages.compat.results import KernelStat


def profile_program(
    store_folder: Path | None,
    words: tuple[str, ...],
    output_path: str | PathLike[str] | None,
    timeout_s: float | None,
    warn: Callable[[str], None] | None,
) -> list[KernelStat]:
    """Run a program and rank its kernels. Without ``warn``, Python warns at the caller's line."""
    warnings_made: list[str] = []
    options = ProfileOptions(timeout_s, warn or warnings_made.append)
    try:
        _, profile = run_profile(Store.open(store_folder), ProgramSpec(words), options)
    finally:
        for text in warnings_made:
            warnings.warn(text, RuntimeWarning, stacklevel=3)
    kernels = make_kernel_stats(profile)
    if output_path is not None:
        try:
            Path(output_path).write_text(json.dumps(make_profile_object(words, kernels), indent=2) + "\n")
        except OSError as error:
            raise DeviceError(
                f"cannot write {output_path}: {error.strerror}", hint="give another output_path"
            ) from error
    return kernels
