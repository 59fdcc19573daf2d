"""From a judgement to the parts of a validation manifest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerncap_stages.manifests.validation import (
    ElementType,
    RegionResult,
    StrayWrite,
    Tolerance,
    WorstElement,
)
from kerncap_stages.validation.judgement import part_name

if TYPE_CHECKING:
    from kerncap_stages.comparison import Bounds
    from kerncap_stages.validation.judgement import PartVerdict


def tolerance(bounds: Bounds) -> Tolerance | None:
    """Bounds as the manifest has them; None for a byte-exact comparison."""
    if bounds.exact:
        return None
    return Tolerance(absolute=bounds.atol, relative=bounds.rtol, ulp=bounds.ulp)


def region_result(verdict: PartVerdict) -> RegionResult:
    """One line of the result."""
    region, found = verdict.region, verdict.found
    difference = found.difference
    worst = None
    if difference.worst is not None:
        worst = WorstElement(
            address=region.base_address + difference.worst.offset_bytes,
            offset_bytes=difference.worst.offset_bytes,
            expected=repr(difference.worst.golden),
            actual=repr(difference.worst.actual),
        )
    return RegionResult(
        name=part_name(verdict),
        base_address=region.base_address,
        offset_bytes=verdict.part.start,
        size_bytes=verdict.part.end - verdict.part.start,
        changed_region=verdict.changed_base,
        device_index=region.device_index,
        element_type=ElementType(verdict.part.element_type or "bytes"),
        passed=found.passed,
        compared_size_bytes=found.written_bytes,
        differing_size_bytes=found.differing_bytes,
        elements=difference.elements,
        elements_out_of_bounds=difference.failing,
        max_absolute_error=difference.max_absolute,
        max_relative_error=difference.max_relative,
        max_ulp=difference.max_ulp,
        nan_expected=difference.nan_golden,
        nan_actual=difference.nan_actual,
        inf_expected=difference.infinite_golden,
        inf_actual=difference.infinite_actual,
        worst=worst,
        heat=found.heat,
    )


def stray_write(verdict: PartVerdict) -> StrayWrite:
    """Where a variant wrote what the captured kernel leaves alone."""
    return StrayWrite(
        base_address=verdict.region.base_address,
        ranges=verdict.found.stray,
        size_bytes=verdict.found.stray_bytes,
    )
