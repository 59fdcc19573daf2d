"""Judges a request, and publishes the verdict as a validation manifest."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

from kerncap_stages import __version__, _native
from kerncap_stages.compilers.clock_reads import find_clock_reads
from kerncap_stages.digest import Digest, FileRef, ManifestRef
from kerncap_stages.errors import ArtifactError, StoreError, UsageError
from kerncap_stages.machine.own_code import digest_code
from kerncap_stages.manifests import dump, load_as
from kerncap_stages.manifests.capture import Capture
from kerncap_stages.manifests.source import Source
from kerncap_stages.manifests.validation import (
    BuiltFile,
    ElementType,
    ErrorSize,
    Guard,
    JudgeOptions,
    OutputPrecision,
    Precision,
    RegionResult,
    StrayWrite,
    Tolerance,
    Validation,
    WorstElement,
)
from kerncap_stages.project.origin import NO_ORIGIN
from kerncap_stages.project.unedited import find_unedited
from kerncap_stages.replay.accesses import find_data_regions
from kerncap_stages.replay.record import find_other_shape
from kerncap_stages.replay.variant import extract_variant_code
from kerncap_stages.store.remembered import load_known
from kerncap_stages.validate.compare.bounds import FLOAT_TYPES
from kerncap_stages.validate.judge import Judge
from kerncap_stages.validate.perturb.start import can_put_back
from kerncap_stages.validate.replays.baselines import Baselines, make_kept_finder, set_states_aside
from kerncap_stages.validate.replays.limits import MAX_BYTES_AT_ONCE
from kerncap_stages.validate.replays.replayer import ProcessReplayer
from kerncap_stages.validate.replays.speculation import THREADS, THREADS_OF_HARDWARE, Speculation

if TYPE_CHECKING:
    from collections.abc import Callable

    from kerncap_stages.manifests.kernel import CodeObject
    from kerncap_stages.manifests.source import Unedited
    from kerncap_stages.manifests.validation import BaselineReplay
    from kerncap_stages.replay.kept import VerdictReplayers
    from kerncap_stages.store import Store, Transaction
    from kerncap_stages.validate.compare.bounds import Bounds
    from kerncap_stages.validate.judgement import Judgement, PartVerdict
    from kerncap_stages.validate.precision.measure import MeasuredOutput
    from kerncap_stages.validate.request import JudgeSettings, Request


def judge_and_publish(
    store: Store, request: Request, standbys: VerdictReplayers, *, fresh: bool
) -> tuple[Digest, Validation]:
    """Judge a request and publish the manifest; later requests find it by the request's key.

    Raises UsageError if the variant's file changed meanwhile.
    """
    _native.keep_freed_memory()  # states with fresh values are made in arrays of the same sizes
    capture = load_as(store, request.capture, Capture)
    source = None if request.source is None else load_as(store, request.source, Source)
    settings = request.settings
    scope = {"capture": request.capture, "machine": request.machine, "timeout_s": settings.timeout_s}
    standbys.tell_code(lambda: store.get_kept(capture.code_digest), has_variant=False)
    if not can_put_back(capture):  # OwnDifferences.sample_apart wants repeated runs
        standbys.share_none(has_variant=False)
    if (code := request.code) is not None:
        standbys.tell_code(lambda: extract_variant_code(code, capture), has_variant=True)

    def judge(known: Callable[[Digest], BaselineReplay | None]) -> tuple[Judgement, Baselines]:
        # What two replays of a verdict read at about the same time, the first of them verifies.
        verify_once = capture.size_bytes <= MAX_BYTES_AT_ONCE
        replayer = ProcessReplayer(
            *(store, capture, settings.timeout_s, standbys, request.shape), verify_once=verify_once
        )
        is_software = capture.device.software
        threads = THREADS if is_software else THREADS_OF_HARDWARE
        # Killing a process in the middle of a kernel may cost a GPU of silicon dear.
        with Speculation(replayer, kills=is_software, meanwhile=digest_code, threads=threads) as replays:
            baselines = Baselines(store, capture, replays, scope, known)
            made = Judge(store, capture, source, settings, baselines, replays).judge(request.variant)
        return made, baselines

    seen: list[BaselineReplay] = []
    try:
        judgement, baselines = judge((lambda _: None) if fresh else make_kept_finder(store, seen))
    except ArtifactError as error:
        # A state that an earlier validation kept may be damaged: the captured kernel makes it again.
        if isinstance(error, StoreError) or not set_states_aside(store, seen, request.capture):
            raise
        judgement, baselines = judge(make_kept_finder(store))
        judgement = judgement.note(
            "states that an earlier verdict kept were damaged: they are in the store's folder damaged/, and "
            "the captured kernel was replayed again"
        )
    standbys.dismiss()  # they end while the verdict is published
    if request.variant is not None and request.variant.read_bytes() != request.code:
        raise UsageError(f"{request.variant} changed while it was validated", hint="validate it again")
    if request.code is not None:
        judgement = judgement.note(*explain_clock(store, capture, request.code))
    with store.begin_transaction() as transaction:
        described = None if request.code is None else store_variant(capture, request.code, transaction)
        store_reference(settings, transaction)
        unedited = None if described is None else find_unedited(store, request.capture)
        manifest = make_manifest(capture, request, described, unedited, judgement, baselines)
        digest = transaction.publish(dump(manifest), "validation", [request.capture])
    store.actions.put(request.key, digest)
    if request.code is not None and settings.perturb:
        store.actions.put(request.first_key, digest)
    baselines.remember(digest)
    return digest, manifest


def publish_with_origin(store: Store, request: Request) -> tuple[Digest, Validation] | None:
    """Publish the known verdict on a request's variant, with the origin that it has in the request.

    None if there is no such verdict.
    """
    found = load_known(store, request.key, Validation)
    if found is None:
        return None
    known, made = found
    made = Validation(**{**dict(made), **_describe_origin(request)})
    with store.begin_transaction() as transaction:
        digest = transaction.publish(dump(made), "validation", [request.capture])
    store.actions.put(request.make_origin_key(known), digest)
    return digest, made


def _describe_origin(request: Request) -> dict[str, Any]:
    origin = request.origin or NO_ORIGIN
    files = origin.built_from
    return {
        "reproducer": None if origin.reproducer is None else ManifestRef.to(origin.reproducer),
        "built_from": None
        if files is None
        else tuple(BuiltFile(path=path, digest=Digest(digest)) for path, digest in files),
    }


def explain_clock(store: Store, capture: Capture, variant: bytes) -> list[str]:
    """Explain that a variant reads a clock, if it does and the captured code object does not."""
    code = extract_variant_code(variant, capture)
    if not find_clock_reads(code) or find_clock_reads(store.get_kept(capture.code_digest)) is not False:
        return []
    runs = "the clock went on by seconds to days between its runs"
    later = "what it does at another time is not known"
    return [
        "the variant reads a clock of the GPU, and the captured kernel does not: "
        f"{runs if capture.device.software else later}"
    ]


def store_variant(capture: Capture, payload: bytes, transaction: Transaction) -> CodeObject:
    """Stage a variant's code for the captured GPU, and describe it."""
    code = extract_variant_code(payload, capture)
    update = {"payload": FileRef.to(transaction.put_bytes(code)), "size_bytes": len(code), "uri": None}
    return capture.kernel.code_object.model_copy(update=update)


def store_reference(settings: JudgeSettings, transaction: Transaction) -> None:
    """Stage the user's reference, if there is one: the verdict names it."""
    if settings.reference is not None:
        transaction.put_bytes(settings.reference.payload)


def make_manifest(
    capture: Capture,
    request: Request,
    variant: CodeObject | None,
    unedited: Unedited | None,
    judgement: Judgement,
    baselines: Baselines,
) -> Validation:
    """Make the manifest of a verdict."""
    environment = capture.environment.model_copy(
        update={"recorded_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
    )
    written = sum(region.written_size_bytes or 0 for region in capture.regions)
    verdicts = judgement.verdicts
    return Validation(
        parents=(ManifestRef.to(request.capture),),
        made_by=f"kerncap-stages {__version__}",
        capture=ManifestRef.to(request.capture),
        **_describe_origin(request),
        options=JudgeOptions.model_validate(request.settings.describe()),
        environment=environment,
        judge_code=digest_code(),
        variant=variant,
        variant_shape=find_other_shape(request.shape, capture.launch),
        unedited=unedited,
        mode=judgement.mode,
        tolerance=_make_tolerance(request.settings.bounds, judgement.own_bound),
        coverage=judgement.coverage,
        passed=judgement.passed,
        reasons=judgement.reasons,
        regions=tuple(_make_region_result(verdict, request.settings.bounds) for verdict in verdicts),
        stray_writes=tuple(_make_stray_write(verdict) for verdict in verdicts if verdict.found.stray_bytes),
        pre_states=judgement.pre_states,
        poisoned_size_bytes=judgement.perturbed_bytes,
        seed=judgement.seed,
        fresh_states=len(judgement.fresh_starts),
        inputs_kept=judgement.inputs_kept,
        baseline_runs=judgement.baseline_runs,
        variant_runs=judgement.variant_runs,
        nondeterministic_share=min(1.0, judgement.nondeterministic_bytes / written) if written else 0.0,
        baselines=tuple({replay.key: replay for replay in baselines.kept}.values()),
        guard=_make_guard(capture, judgement),
        precision=_make_precision(request.settings, judgement),
    )


def _make_tolerance(bounds: Bounds, own: float | None) -> Tolerance | None:
    """Convert the bounds for the manifest; None for a byte-exact comparison.

    ``own``: the largest that the captured kernel's own differences gave.
    """
    if bounds.is_exact and own is None:
        return None
    absolute = bounds.atol if own is None else own + (bounds.atol or 0.0)
    return Tolerance(absolute=absolute, relative=bounds.rtol, ulp=bounds.ulp)


def _make_guard(capture: Capture, judgement: Judgement) -> Guard | None:
    guarded = judgement.guarded
    if guarded is None:
        return None
    return Guard(
        size_bytes=sum(region.size_bytes for region in find_data_regions(capture)),
        guarded_size_bytes=guarded.size_bytes,
        runs=guarded.runs,
        fresh_runs=guarded.fresh_runs,
        opened=tuple((begin, end - begin) for begin, end in guarded.opened),
        failure=guarded.failure or None,
    )


def _make_precision(settings: JudgeSettings, judgement: Judgement) -> Precision | None:
    if settings.reference is None or not judgement.precision:
        return None
    return Precision(
        file_name=settings.reference.name,
        file=FileRef.to(settings.reference.digest),
        outputs=tuple(_make_output_precision(each) for each in judgement.precision),
    )


def _make_output_precision(measured: MeasuredOutput) -> OutputPrecision:
    errors, group = measured.errors, measured.errors.decisive
    return OutputPrecision(
        name=measured.given.label,
        element_type=ElementType(measured.element_type),
        fresh_values=measured.is_fresh,
        passed=errors.passed,
        elements=errors.elements,
        unusable_elements=errors.unusable,
        captured=ErrorSize(max_absolute=errors.captured.max_absolute, rms=errors.captured.rms),
        variant=ErrorSize(max_absolute=errors.variant.max_absolute, rms=errors.variant.rms),
        captured_ulp=errors.ulps,
        allowed_share=group.share,
        factor=group.factor,
        worst_address=measured.address,
        worst_true=measured.true,
        worst_actual=measured.actual,
    )


def _make_region_result(verdict: PartVerdict, bounds: Bounds) -> RegionResult:
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
        name=verdict.name,
        base_address=region.base_address,
        offset_bytes=verdict.part.start,
        size_bytes=verdict.part.end - verdict.part.start,
        changed_region=verdict.perturbed_base,
        start=verdict.start,
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
        rms_error=_measure_rms(verdict),
        worst_share=_measure_share(verdict, bounds),
        worst=worst,
        heat=found.heat,
    )


def _measure_rms(verdict: PartVerdict) -> float | None:
    difference = verdict.found.difference
    if verdict.part.element_type not in FLOAT_TYPES or not difference.elements:
        return None
    return math.sqrt(difference.square_sum / difference.elements)


def _measure_share(verdict: PartVerdict, bounds: Bounds) -> float | None:
    """Return the worst element's error in parts of what the bounds allow; None where they were others."""
    worst = verdict.found.difference.worst
    if bounds.is_exact or verdict.perturbed_base is not None or verdict.part.element_type is None:
        return None
    if worst is None:
        return 0.0
    shares = [] if bounds.atol is None and bounds.rtol is None else [worst.error]
    shares += [worst.gap / bounds.ulp] if bounds.ulp else []
    return min(shares, default=None)


def _make_stray_write(verdict: PartVerdict) -> StrayWrite:
    return StrayWrite(
        base_address=verdict.region.base_address,
        ranges=verdict.found.stray,
        size_bytes=verdict.found.stray_bytes,
    )
