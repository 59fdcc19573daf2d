"""Writes what kc-run found, for scripts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from kerncap_stages.cli.named_output import write_output
from kerncap_stages.errors import DeviceError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kerncap_stages.cli.flows.run_check import CheckedDispatch
    from kerncap_stages.cli.flows.run_compare import Comparison
    from kerncap_stages.cli.flows.run_variants import ChosenVariant
    from kerncap_stages.collect.program import ProgramSpec
    from kerncap_stages.collect.replacing import ReplacedRun


def write_json(
    path: Path,
    spec: ProgramSpec,
    variants: Sequence[ChosenVariant],
    *,
    checked: Sequence[CheckedDispatch] | None = None,
    run: ReplacedRun | None = None,
    comparison: Comparison | None = None,
) -> None:
    """Write a file. ``checked``: None without a check. ``run``: None if the program was not run.

    Raises DeviceError if it cannot be written.
    """
    page: dict[str, Any] = {
        "schema_version": 1,
        "command": list(spec.command),
        "exit_code": None if run is None else run.program.exit_code,
        "exit_signal": None if run is None else run.program.exit_signal,
        "wall_ns": None if run is None else run.wall_ns,
        "processes": 0 if run is None else len(run.processes),
        "kernels": [_describe_kernel(number, each, run) for number, each in enumerate(variants)],
    }
    if checked is not None:
        page["check"] = [_describe_dispatch(each) for each in checked]
    if comparison is not None:
        page["compare"] = _describe_comparison(comparison)
    try:
        write_output(path, json.dumps(page, indent=2).encode() + b"\n")
    except OSError as error:
        raise DeviceError(
            f"--json {path}: {error.strerror}; the results were not written",
            hint="free space on that disk, or name another file, and run it again",
        ) from error


def _describe_comparison(comparison: Comparison) -> dict[str, Any]:
    """Describe times. The ratio is the variant's time, divided by the captured kernel's."""
    times = comparison.times
    low, high, confidence = (None, None, None) if times is None else times.interval
    return {
        "wanted_pairs": comparison.wanted,
        "pairs": len(comparison.captured_ns),
        "captured_wall_ns": comparison.captured_ns,
        "variant_wall_ns": comparison.variant_ns,
        "ratio": None if times is None else times.ratio,
        "interval": None if times is None else [low, high],
        "confidence": confidence,
        "on_software_gpu": comparison.is_software,
    }


def _describe_kernel(number: int, variant: ChosenVariant, run: ReplacedRun | None) -> dict[str, Any]:
    found = None if run is None else run.add_up(number)
    known, failed = variant.verdicts
    return {
        "kernel": variant.name,
        "symbol": variant.symbol,
        "capture": variant.capture_digest,
        "variant": variant.variant_digest,
        "newest_verdict": None if known is None else known.digest,
        "newest_verdict_passed": None if known is None else bool(known.made.passed),
        "failed_verdict": None if failed is None else failed.digest,
        "dispatches": 0 if found is None else found.dispatches,
        "kept_dispatches": 0 if found is None else found.kept,
        "replaced_code_objects": 0 if found is None else found.loaded,
        "other_code_objects": 0 if found is None else found.other_code,
        "failures": [] if found is None else found.failures,
    }


def _describe_dispatch(checked: CheckedDispatch) -> dict[str, Any]:
    return {
        "symbol": checked.variant.symbol,
        "process_id": checked.process_id,
        "dispatch": checked.number,
        "capture": checked.capture,
        "validation": checked.verdict,
        "passed": checked.passed,
        "whole_verdict": checked.is_whole,
        "not_compared": checked.why,
    }
