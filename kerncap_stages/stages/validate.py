"""kc-validate: whether a rebuilt kernel does what the captured one did."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kerncap_stages import __version__
from kerncap_stages.console import emit, epilog, run, say
from kerncap_stages.errors import ExitCode
from kerncap_stages.inputs import artifact_texts
from kerncap_stages.options import ArtifactArguments, JsonOption, StoreOption, VersionOption, stage_app

if TYPE_CHECKING:
    from kerncap_stages.digest import Digest
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.validation import RegionResult, StrayWrite, Validation
    from kerncap_stages.store import Store, Transaction
    from kerncap_stages.validation.judge import Judgement, RegionVerdict, Settings

app = stage_app()


@app.command(
    epilog=epilog(
        "kc-validate ./isolated/scale                      the rebuilt kernel there, byte for byte\n"
        "kc-validate @capture --variant new.hsaco --dtype fp32 --ulp 2"
    )
)
def validate(
    artifacts: ArtifactArguments = None,
    variant: Annotated[
        Path | None, typer.Option("--variant", "--hsaco", metavar="FILE", help="The rebuilt code object.")
    ] = None,
    baseline: Annotated[
        bool, typer.Option("--baseline", help="Check the captured kernel itself, whatever was rebuilt.")
    ] = False,
    tolerance: Annotated[
        float | None, typer.Option("--tolerance", "-t", min=0.0, help="Largest absolute error of an element.")
    ] = None,
    rtol: Annotated[
        float | None, typer.Option(min=0.0, help="Largest error relative to the golden element.")
    ] = None,
    ulp: Annotated[int | None, typer.Option(min=0, help="Most representable values apart.")] = None,
    dtype: Annotated[
        str | None,
        typer.Option(metavar="TYPE", help="Type of the outputs: fp64 fp32 fp16 bf16 fp8_... int32 ..."),
    ] = None,
    runs: Annotated[
        int, typer.Option(min=1, help="Replays of the baseline that look for nondeterminism.")
    ] = 2,
    quick: Annotated[bool, typer.Option("--quick", help="Try the captured pre-state only.")] = False,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", min=0.1, help="For each replay.")] = 300.0,
    store: StoreOption = None,
    json: JsonOption = False,
    version: VersionOption = False,  # noqa: ARG001 - the option acts by itself
) -> ExitCode:
    """Compare what a rebuilt kernel writes with what the captured one wrote in the program.

    In a project's folder, candidate.hsaco or optimized.hsaco is taken as the variant if there is one. Without
    any variant the captured kernel itself is checked. Without a tolerance every byte must be the same.
    """
    from kerncap_stages.project.artifacts import find_capture
    from kerncap_stages.project.variants import built_variant

    settings = _settings(tolerance, rtol, ulp, dtype, timeout, runs, perturb=not quick)
    worst = ExitCode.DONE
    for text in artifact_texts(artifacts):
        opened, digest = find_capture(store, text)
        chosen = None if baseline else variant or built_variant(Path(text))
        made, manifest = run_validate(opened, digest, chosen, settings)
        _report(manifest)
        emit(made, manifest if json else None)
        if not manifest.passed:
            worst = ExitCode.ANSWER_IS_NO
    return worst


def main() -> None:
    """Run kc-validate."""
    run(app)


def run_validate(
    store: Store, capture_digest: Digest, variant: Path | None, settings: Settings
) -> tuple[Digest, Validation]:
    """Judge a variant, or without one the baseline, and publish the verdict.

    Raises what keeps a replay from being run; a kernel that crashes or hangs is a failed verdict.
    """
    from kerncap_stages.errors import UsageError
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.codec import dump, load_as
    from kerncap_stages.validation.judge import judge

    if variant is not None and not variant.is_file():
        raise UsageError(f"no such code object: {variant}", hint="make it with `make recompile`")
    capture = load_as(store, capture_digest, Capture)
    judgement = judge(store, capture, variant, settings)
    with store.transaction() as transaction:
        manifest = _manifest(capture, capture_digest, variant, settings, judgement, transaction)
        digest = transaction.publish(dump(manifest), "validation", [capture_digest])
    return digest, manifest


def footer(manifest: Validation) -> str:
    """The one line that scripts look for."""
    verdict = "PASS" if manifest.passed else "FAIL"
    bad = {region.base_address for region in manifest.regions if not region.passed}
    total = len({region.base_address for region in manifest.regions})
    if manifest.mode in ("smoke", "baseline"):
        return f"Result: {verdict}  (smoke)" if manifest.mode == "smoke" else f"Result: {verdict}  (baseline)"
    if manifest.mode == "numeric":
        errors = [region.max_absolute_error or 0.0 for region in manifest.regions]
        atol = manifest.tolerance.absolute if manifest.tolerance else None
        worst = max(errors, default=0.0)
        return f"Result: {verdict}  (numeric, max_error = {worst:.6g}, atol = {atol or 0.0:g})"
    differ = f", {len(bad)} differ" if bad else ""
    return f"Result: {verdict}  (byte-exact, {total - len(bad)} of {total} regions identical{differ})"


def _settings(
    tolerance: float | None,
    rtol: float | None,
    ulp: int | None,
    dtype: str | None,
    timeout: float,
    runs: int,
    *,
    perturb: bool,
) -> Settings:
    from kerncap_stages.comparison import ELEMENT_TYPES, Bounds
    from kerncap_stages.errors import UsageError
    from kerncap_stages.validation.judge import Settings

    if dtype is not None and dtype not in ELEMENT_TYPES:
        raise UsageError(f"unknown element type {dtype!r}", hint="one of " + " ".join(ELEMENT_TYPES))
    bounds = Bounds(tolerance, rtol, ulp)
    # A numeric comparison needs a type; fp32 is what most kernels write.
    default = dtype or ("bytes" if bounds.exact else "fp32")
    return Settings(
        bounds=bounds, default_type=default, timeout_s=timeout, baseline_runs=runs, perturb=perturb
    )


def _manifest(
    capture: Capture,
    capture_digest: Digest,
    variant: Path | None,
    settings: Settings,
    judgement: Judgement,
    transaction: Transaction,
) -> Validation:
    from kerncap_stages.digest import FileRef, ManifestRef
    from kerncap_stages.manifests.validation import Tolerance, Validation

    code = None
    if variant is not None:
        payload = variant.read_bytes()
        stored = FileRef.to(transaction.put_bytes(payload))
        code = capture.kernel.code_object.model_copy(
            update={"payload": stored, "size_bytes": len(payload), "uri": None}
        )
    environment = capture.environment.model_copy(
        update={"recorded_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
    )
    written = sum(region.written_size_bytes or 0 for region in capture.regions)
    bounds = settings.bounds
    return Validation(
        parents=(ManifestRef.to(capture_digest),),
        made_by=f"kerncap-stages {__version__}",
        capture=ManifestRef.to(capture_digest),
        environment=environment,
        variant=code,
        mode=judgement.mode,
        tolerance=None
        if bounds.exact
        else Tolerance(absolute=bounds.atol, relative=bounds.rtol, ulp=bounds.ulp),
        coverage=judgement.coverage,
        passed=judgement.passed,
        reasons=tuple(judgement.reasons),
        regions=tuple(_region(verdict) for verdict in judgement.verdicts),
        stray_writes=tuple(_stray(verdict) for verdict in judgement.verdicts if verdict.found.stray_bytes),
        pre_states=judgement.pre_states,
        poisoned_size_bytes=judgement.poisoned_bytes,
        baseline_runs=judgement.baseline_runs,
        nondeterministic_share=min(1.0, judgement.nondeterministic_bytes / written) if written else 0.0,
    )


def _region(verdict: RegionVerdict) -> RegionResult:
    from kerncap_stages.manifests.validation import ElementType, RegionResult, WorstElement

    region, found = verdict.region, verdict.found
    difference = found.difference
    worst = None
    if difference.worst_offset_bytes is not None:
        worst = WorstElement(
            address=region.base_address + difference.worst_offset_bytes,
            offset_bytes=difference.worst_offset_bytes,
            expected=repr(difference.worst_golden),
            actual=repr(difference.worst_actual),
        )
    suffix = "" if verdict.perturbed_base is None else f", with {verdict.perturbed_base:#x} changed before"
    return RegionResult(
        name=f"region {region.base_address:#x}{suffix}",
        base_address=region.base_address,
        device_index=region.device_index,
        element_type=ElementType(verdict.element_type),
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
    )


def _stray(verdict: RegionVerdict) -> StrayWrite:
    from kerncap_stages.manifests.validation import StrayWrite

    return StrayWrite(
        base_address=verdict.region.base_address,
        ranges=verdict.found.stray,
        size_bytes=verdict.found.stray_bytes,
    )


def _report(manifest: Validation) -> None:
    for region in manifest.regions:
        if not region.passed:
            say(f"  FAIL {region.name}: {region.elements_out_of_bounds} of {region.elements} elements")
            if region.worst is not None:
                worst = region.worst
                say(f"    worst at {worst.address:#x}: {worst.actual} instead of {worst.expected}")
    for stray in manifest.stray_writes:
        first = stray.ranges[0][0] if stray.ranges else 0
        say(f"  STRAY {stray.size_bytes} bytes in region {stray.base_address:#x}, the first at +{first:#x}")
    for reason in manifest.reasons:
        say(f"  {reason}")
    say(footer(manifest))
