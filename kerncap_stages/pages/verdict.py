"""The lines of a verdict, and a heat map of one line for each output that differs.

The validation may be a model or a view. A view holds NaN and infinity as text, and ``float`` reads both.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from kerncap_stages.pages.scope import name_limit
from kerncap_stages.text import formats
from kerncap_stages.text.terminal import make_printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kerncap_stages.manifests import View
    from kerncap_stages.manifests.validation import RegionResult, Tolerance, Validation

# From no byte of a column to all bytes. ASCII characters, for every terminal and log.
_SHADES = " .:-=+*#%@"
_COLUMNS = 64
_MAX_LINES = 24


def format_footer(*manifests: Validation | View) -> str:
    """Return the result line, which scripts look for: the verdict on one kernel, or on all of a project."""
    worst = next((manifest for manifest in manifests if not manifest.passed), manifests[-1])
    counts = [count_regions(manifest) for manifest in manifests]
    total, agreeing = (sum(count[which] for count in counts) for which in (0, 1))
    error = find_largest([find_max_error(manifest) for manifest in manifests])
    mode = str(worst.mode).replace("_", "-")
    bounds, limit = format_bounds(worst.tolerance), name_limit(worst)
    return format_result_line(mode, worst.passed, total, agreeing, error, bounds, limit)


def format_result_line(
    mode: str,
    passed: bool,
    total: int,
    agreeing: int,
    max_error: float,
    bounds: str,
    limit: str | None = None,
) -> str:
    """Return the result line. ``agreeing``: how many of ``total`` outputs agree.

    bounds: of a numeric verdict, as ``format_bounds`` returns them. limit: of a verdict that is not full.
    """
    words = [mode]
    differing = total - agreeing
    if mode in ("byte-exact", "numeric") and not total:
        words.append("nothing was compared")
    elif mode == "byte-exact":
        words.append(f"{agreeing} of {total} regions identical")
        words += [f"{differing} differ"] if differing else []
    elif mode == "numeric":
        words += [f"{differing} of {total} outputs differ"] if differing else []
        words += [f"max_error = {max_error:.2e}", bounds]
    words += [] if limit is None else [limit]
    return f"Result: {'PASS' if passed else 'FAIL'}  ({', '.join(words)})"


def format_bounds(tolerance: Tolerance | View | None) -> str:
    """Return the absolute bound; if none was given, the other bounds, and that there is no absolute one."""
    if tolerance is None:
        return "atol = 0"
    if tolerance.absolute is not None:
        return f"atol = {float(tolerance.absolute):g}"
    given = [] if tolerance.relative is None else [f"rtol = {float(tolerance.relative):g}"]
    given += [] if tolerance.ulp is None else [f"ulp = {tolerance.ulp}"]
    return ", ".join((*given, "no absolute bound (--tolerance sets one)"))


def find_largest(errors: Sequence[float]) -> float:
    """Return the largest of several errors; NaN if one of them is NaN."""
    return math.nan if any(map(math.isnan, errors)) else max(errors)


def count_regions(manifest: Validation | View) -> tuple[int, int]:
    """Count the regions that were compared, and those that agree everywhere, in every state that was tried.

    A region that only the variant wrote to counts as compared and as differing.
    """
    stray = {write.base_address for write in manifest.stray_writes}
    bad = {region.base_address for region in manifest.regions if not region.passed} | stray
    every = {region.base_address for region in manifest.regions} | stray
    return len(every), len(every) - len(bad)


def find_max_error(manifest: Validation | View) -> float:
    """Return the largest absolute error of any element; NaN if the NaNs differ."""
    if any(region.nan_actual != region.nan_expected for region in manifest.regions):
        return float("nan")
    return max((float(region.max_absolute_error or 0.0) for region in manifest.regions), default=0.0)


def format_lines(manifest: Validation | View, *, verbose: bool = False) -> Iterator[str]:
    """Return the lines above the footer. They list outputs that pass if one fails, or if ``verbose``."""
    shown = [region for region in manifest.regions if verbose or not manifest.passed]
    shown.sort(key=lambda region: region.passed)
    for region in shown[:_MAX_LINES]:
        yield from _format_region_lines(region, exact=manifest.mode != "numeric")
    if len(shown) > _MAX_LINES:
        yield f"  and {len(shown) - _MAX_LINES} more"
    yield from format_precision(manifest)
    for stray in manifest.stray_writes[:_MAX_LINES]:
        first = stray.ranges[0][0] if stray.ranges else 0
        yield (
            f"  STRAY {formats.count(stray.size_bytes, 'byte')} in region {stray.base_address:#x}, "
            f"the first at +{first:#x} (address {stray.base_address + first:#x})"
        )
    if manifest.variant_shape is not None:
        yield f"  {formats.tell_variant_shape(manifest.variant_shape)}"
    for reason in manifest.reasons:
        yield f"  {reason}"
    if manifest.unedited is not None:
        text = formats.describe_same_instructions(manifest.unedited)
        yield f"  same instructions before any edit: {make_printable(text)}"


def format_precision(manifest: Validation | View) -> Iterator[str]:
    """Say how exact a variant is: against the reference, else how far it is from the captured kernel."""
    if manifest.precision is not None:
        for output in manifest.precision.outputs:
            name = make_printable(output.name) + (", for fresh values" if output.fresh_values else "")
            ours, theirs = (
                f"{float(each.max_absolute):.3g} (RMS {float(each.rms):.3g})"
                for each in (output.variant, output.captured)
            )
            yield (
                f"  {'pass' if output.passed else 'FAIL'} precision of {name}: largest error {ours}, the "
                f"captured kernel's {theirs}"
            )
        return
    if manifest.mode != "numeric" or not manifest.passed:
        return
    known = [region for region in manifest.regions if region.worst_share is not None]
    if not known:
        return
    worst = max(known, key=lambda region: float(region.worst_share or 0.0))
    if worst.worst is None:
        yield "  equal to the captured kernel's outputs, whose precision nothing judged (--reference does)"
        return
    rms = "" if worst.rms_error is None else f", RMS {float(worst.rms_error):.3g}"
    yield (
        f"  precision was judged against the captured kernel only (--reference judges it against fp64): "
        f"{make_printable(worst.name)} differs by at most {float(worst.max_absolute_error or 0.0):.3g}{rms}; "
        f"that is {_format_share(float(worst.worst_share or 0.0))} of what the bounds allow, at "
        f"{worst.worst.address:#x}"
    )


def _format_share(share: float) -> str:
    """Write a share as a percentage with two digits."""
    return f"{100.0 * share:.2g} %" if share < 0.995 else "all" if share <= 1.0 else f"{100.0 * share:.0f} %"


def draw_heat(heat: Sequence[int], size_bytes: int, columns: int = _COLUMNS) -> str:
    """Show where bytes differ along an output: one character for each of at most ``columns`` pieces."""
    count = min(columns, len(heat))
    sums = [sum(heat[i * len(heat) // count : (i + 1) * len(heat) // count]) for i in range(count)]
    room = max(1.0, size_bytes / count)
    top = len(_SHADES) - 1
    return "".join(_SHADES[min(top, 1 + int(value / room * (top - 1))) if value else 0] for value in sums)


def describe_start(region: RegionResult | View) -> str:
    """Describe the state that a region was judged from, to follow its name; "" for the captured one."""
    if region.changed_region is None:
        return ""
    start = getattr(region, "start", None)  # views of earlier verdicts lack it
    if start is not None:
        return f", from {make_printable(start)}"
    place = (
        "" if region.changed_region == region.base_address else f" (perturbed at {region.changed_region:#x})"
    )
    return f", from a perturbed state{place}"


# Of an output that fails without a wrong element.
ONLY_STRAY = "nothing that the captured kernel writes differs"


def has_no_ulp(region: RegionResult | View) -> bool:
    """Whether the elements of an output are no floats, and so have no units in the last place."""
    return str(region.element_type).startswith(("int", "uint", "bytes"))


def _format_region_lines(region: RegionResult | View, *, exact: bool) -> Iterator[str]:
    verdict = "pass" if region.passed else "FAIL"
    name = make_printable(region.name) + describe_start(region)
    kind = str(region.element_type)
    what = "bytes" if kind == "bytes" else f"{kind} elements"
    how = "" if exact or kind == "bytes" else " too much"
    if region.passed or region.elements_out_of_bounds:
        yield f"  {verdict} {name}: {region.elements_out_of_bounds} of {region.elements} {what} differ{how}"
    else:
        yield f"  {verdict} {name}: {ONLY_STRAY}, but see STRAY"
    if region.worst is not None:
        worst = region.worst
        yield (
            f"    worst at {worst.address:#x} (+{worst.offset_bytes:#x}): {worst.actual} instead of "
            f"{worst.expected}"
        )
        if kind != "bytes":
            ulp = "" if has_no_ulp(region) else f", {region.max_ulp or 0} ULP"
            yield (
                f"    largest error {float(region.max_absolute_error or 0.0):.6g}, relative "
                f"{float(region.max_relative_error or 0.0):.6g}{ulp}"
            )
    if region.nan_actual or region.nan_expected or region.inf_actual or region.inf_expected:
        yield (
            f"    NaN {region.nan_actual} (expected {region.nan_expected}), infinite {region.inf_actual} "
            f"(expected {region.inf_expected})"
        )
    if region.heat and region.size_bytes:
        heat = draw_heat(region.heat, region.size_bytes)
        size = formats.count(region.size_bytes, "byte")
        yield f"    [{heat}] where bytes differ, from the first to the last of {size}"
