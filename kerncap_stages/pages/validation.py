"""The page of a validation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerncap_stages.pages.parts import facts, heading, table
from kerncap_stages.pages.shared import code_object_text, environment_section, same_instructions_fact
from kerncap_stages.text import formats

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from kerncap_stages.manifests.validation import RegionResult, Tolerance, Validation


def render(validation: Validation) -> Iterator[RenderableType]:
    """Show the verdict, then the evidence."""
    yield heading("Validation: " + ("PASS" if validation.passed else "FAIL"))
    yield facts(
        [
            ("capture", validation.capture.digest.short),
            (
                "variant",
                "the baseline" if validation.variant is None else code_object_text(validation.variant),
            ),
            ("unedited", same_instructions_fact(validation.unedited)),
            ("mode", validation.mode.value.replace("_", " ")),
            ("bounds", None if validation.tolerance is None else _bounds(validation.tolerance)),
            *(("because", reason) for reason in validation.reasons),
            ("variant's runs", str(validation.variant_runs) if validation.variant_runs else None),
            ("pre-states", str(validation.pre_states)),
            ("perturbed", formats.size(validation.poisoned_size_bytes)),
        ]
    )
    yield heading("Outputs")
    yield table(
        ["", "output", "=address", "type", ">compared", ">differ", ">out of bounds", ">max error", ">ULP"],
        (_row(region) for region in validation.regions),
    )
    if validation.stray_writes:
        yield heading("Stray writes")
        yield table(
            ["region", ">bytes", ">places"],
            (
                (formats.address(stray.base_address), f"{stray.size_bytes:,}", f"{len(stray.ranges):,}")
                for stray in validation.stray_writes
            ),
        )
    yield from environment_section(validation.environment)


def _row(region: RegionResult) -> tuple[str, ...]:
    error = region.max_absolute_error
    return (
        "pass" if region.passed else "FAIL",
        region.name,
        formats.address(region.base_address),
        region.element_type.value,
        formats.size(region.compared_size_bytes),
        formats.size(region.differing_size_bytes),
        f"{region.elements_out_of_bounds:,}",
        "-" if error is None else f"{error:.3g}",
        "-" if region.max_ulp is None else f"{region.max_ulp:,}",
    )


def _bounds(tolerance: Tolerance) -> str:
    given = {
        "absolute": tolerance.absolute,
        "relative": tolerance.relative,
        "ULP": tolerance.ulp,
    }
    return ", ".join(f"{name} {value:g}" for name, value in given.items() if value is not None)
