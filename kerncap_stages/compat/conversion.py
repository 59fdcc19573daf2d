"""Convert manifests to the documented results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerncap_stages.compat.lines import (
    ASSUMED_COMMAND,
    MODES,
    NO_COMPILE_COMMAND,
    NO_RECOMPILE,
    get_atol,
    make_details,
    make_region_lines,
)
from kerncap_stages.compat.results import ExtractResult, ValidationResult
from kerncap_stages.manifests.source import Outcome
from kerncap_stages.pages.verdict import count_regions, find_largest, find_max_error, format_bounds
from kerncap_stages.text.formats import tell_variant_shape
from kerncap_stages.text.terminal import make_printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kerncap_stages.compat.steps import Extraction
    from kerncap_stages.digest import Digest
    from kerncap_stages.manifests.validation import Validation


def extract_result(extraction: Extraction, language: str | None) -> ExtractResult:
    """Convert an extraction to its documented result. ``language``: the user's argument."""
    folder = extraction.folder.resolve()
    paths = [file.path for file in extraction.reproducer.files]
    source = extraction.source
    found = source is not None and source.outcome is Outcome.FOUND
    if language is None:
        known = source.language if source is not None else extraction.capture.kernel.language
        language = known.value.removesuffix("_cpp")  # as --language spells it
    notes = extraction.notes
    can_recompile = extraction.reproducer.can_recompile
    if language == "triton":
        if "reproducer.py" not in paths:
            notes.append("no reproducer.py is made for this kernel: the project replays and validates")
    elif found and not extraction.compile_command_found:
        compiler = "nvcc" if language == "cuda" else "hipcc"
        notes.append(
            f"{NO_COMPILE_COMMAND} {ASSUMED_COMMAND.format(compiler) if can_recompile else NO_RECOMPILE}"
        )
    return ExtractResult(
        output_dir=str(folder),
        capture_dir=str(folder / "capture"),
        language=language,
        has_source=found,
        generated_files=["capture/", *(path for path in paths if not path.startswith("capture/"))],
        can_recompile=can_recompile,
        notes=notes,
        capture=extraction.digests["capture"],
        reproducer=extraction.digests["generate"],
    )


def make_validation_result(
    manifests: Sequence[Validation],
    digests: Sequence[Digest],
    names: Sequence[str],
    notes: Sequence[str],
) -> ValidationResult:
    """Combine the verdicts on all kernels of a project into one documented result."""
    counts = [count_regions(manifest) for manifest in manifests]
    worst = next((manifest for manifest in manifests if not manifest.passed), manifests[-1])
    mode = MODES[worst.mode.value]
    errors = [find_max_error(manifest) for manifest in manifests]
    total, identical = (sum(count[which] for count in counts) for which in (0, 1))
    lines: list[str] = []
    for manifest, name in zip(manifests, names, strict=True):
        lines += [f"{make_printable(name)}:"] if len(manifests) > 1 else []
        lines += make_details(manifest)
    launches = [
        tell_variant_shape(manifest.variant_shape)
        for manifest in manifests
        if manifest.variant_shape is not None
    ]
    return ValidationResult(
        passed=worst.passed,
        details=lines,
        max_error=find_largest(errors),
        mode=mode,
        region_lines=[line for manifest in manifests for line in make_region_lines(manifest)],
        regions_total=total,
        regions_identical=identical,
        outputs_total=total,
        outputs_passed=identical,
        atol=get_atol(worst) if mode == "numeric" else None,
        bounds=format_bounds(worst.tolerance) if mode == "numeric" else "",
        reasons=[reason for manifest in manifests for reason in manifest.reasons],
        notes=[*notes, *launches],
        validation=str(digests[manifests.index(worst)]),
    )
