"""The page of a validation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerncap_stages.pages.parts import list_facts, make_heading, make_table
from kerncap_stages.pages.scope import describe_limit, name_limit
from kerncap_stages.pages.shared import describe_code_object, describe_unedited, make_environment_section
from kerncap_stages.pages.verdict import describe_start, has_no_ulp
from kerncap_stages.text import formats

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from kerncap_stages.manifests.validation import (
        Guard,
        OutputPrecision,
        RegionResult,
        Tolerance,
        Validation,
    )


def render(validation: Validation) -> Iterator[RenderableType]:
    """Show the verdict, then the evidence."""
    shape = validation.variant_shape
    limit = name_limit(validation)
    verdict = "PASS" if validation.passed else "FAIL"
    yield make_heading(f"Validation: {verdict}" + ("" if limit is None else f" ({limit})"))
    yield list_facts(
        [
            ("capture", validation.capture.digest.short),
            ("project", None if validation.reproducer is None else validation.reproducer.digest.short),
            (
                "variant",
                "the baseline" if validation.variant is None else describe_code_object(validation.variant),
            ),
            ("unedited", describe_unedited(validation.unedited)),
            ("mode", validation.mode.value.replace("_", " ")),
            ("bounds", None if validation.tolerance is None else _format_bounds(validation.tolerance)),
            ("options", None if validation.options is None else _format_options(validation)),
            ("code that judged", None if validation.judge_code is None else validation.judge_code.short),
            ("launched as", None if shape is None else formats.describe_shape(shape)),
            *(("because", reason) for reason in validation.reasons),
            ("left out", describe_limit(validation)),
            ("variant's runs", str(validation.variant_runs) if validation.variant_runs else None),
            ("pre-states", _describe_states(validation)),
            ("perturbed", formats.format_size(validation.poisoned_size_bytes)),
            ("guarded", None if validation.guard is None else _describe_guard(validation.guard)),
            ("fresh values", None if validation.seed is None else f"seed {validation.seed}"),
            ("not varied", None if validation.variant is None else "scalar arguments, sizes, grid and block"),
        ]
    )
    yield make_heading("Outputs")
    yield make_table(
        ["", "output", "=address", "type", ">compared", ">differ", ">out of bounds", ">max error", ">ULP"],
        (_make_row(region) for region in validation.regions),
    )
    if validation.precision is not None:
        yield make_heading("Precision")
        yield list_facts(
            [
                ("reference", validation.precision.file_name),
                ("its SHA-256", validation.precision.file.digest),
            ]
        )
        yield make_table(
            [
                *("", "output", "inputs", ">elements", ">max error", ">RMS"),
                *(">captured max", ">captured RMS", ">of allowed"),
            ],
            (_make_precision_row(output) for output in validation.precision.outputs),
        )
    if validation.stray_writes:
        yield make_heading("Stray writes")
        yield make_table(
            ["region", ">bytes", ">places"],
            (
                (
                    formats.format_address(stray.base_address),
                    f"{stray.size_bytes:,}",
                    f"{len(stray.ranges):,}",
                )
                for stray in validation.stray_writes
            ),
        )
    if validation.built_from:
        yield make_heading("Built from")
        yield make_table(
            ["file", "=SHA-256"], ((each.path, each.digest.short) for each in validation.built_from)
        )
    yield from make_environment_section(validation.environment)


def _describe_guard(guard: Guard) -> str:
    runs = f"{guard.runs} from the captured state, {guard.fresh_runs} from fresh values"
    sizes = (
        f"{formats.format_size(guard.guarded_size_bytes)} in pages of {formats.format_size(guard.size_bytes)}"
    )
    return f"{sizes}, in {runs}" + (f": {guard.failure}" if guard.failure else "")


def _make_row(region: RegionResult) -> tuple[str, ...]:
    error = region.max_absolute_error
    return (
        "pass" if region.passed else "FAIL",
        region.name + describe_start(region),
        formats.format_address(region.base_address),
        region.element_type.value,
        formats.format_size(region.compared_size_bytes),
        formats.format_size(region.differing_size_bytes),
        f"{region.elements_out_of_bounds:,}",
        "-" if error is None else f"{error:.3g}",
        "-" if region.max_ulp is None or has_no_ulp(region) else f"{region.max_ulp:,}",
    )


def _make_precision_row(output: OutputPrecision) -> tuple[str, ...]:
    sizes = (output.variant, output.captured)
    return (
        "pass" if output.passed else "FAIL",
        output.name,
        "fresh values" if output.fresh_values else "as captured",
        f"{output.elements:,}",
        *(f"{number:.3g}" for each in sizes for number in (each.max_absolute, each.rms)),
        f"{output.allowed_share:.2g}",
    )


def _describe_states(validation: Validation) -> str:
    fresh = validation.fresh_states
    return str(validation.pre_states) + (f", {fresh} of them with fresh values" if fresh else "")


def _format_options(validation: Validation) -> str:
    """Write the options that the verdict depends on as kc-validate takes them, always with the time limit."""
    options = validation.options
    assert options is not None
    given = {
        "--tolerance": options.bounds.atol,
        "--rtol": options.bounds.rtol,
        "--ulp": options.bounds.ulp,
        "--dtype": options.default_type and options.default_type.value,
        "--reference": options.reference and f"SHA-256 {options.reference.short}",
        "--runs": options.baseline_runs if validation.variant is None else None,
        "--variant-runs": options.variant_runs,
        "--seed": options.seed,
        "--timeout": options.timeout_s,
    }
    words = [
        f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in given.items()
        if value is not None
    ]
    words += [] if options.perturb else ["--quick"]
    return " ".join(words + ([] if options.fresh_values else ["--captured-values"]))


def _format_bounds(tolerance: Tolerance) -> str:
    given = {
        "absolute": tolerance.absolute,
        "relative": tolerance.relative,
        "ULP": tolerance.ulp,
    }
    return ", ".join(f"{name} {value:g}" for name, value in given.items() if value is not None)
