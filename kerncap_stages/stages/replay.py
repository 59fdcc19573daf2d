"""kc-replay: run a captured dispatch again, alone, at its own addresses; compare its results, or time it."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kerncap_stages.console import emit, epilog, run, say
from kerncap_stages.errors import ExitCode, UsageError
from kerncap_stages.inputs import artifact_texts
from kerncap_stages.options import ArtifactArguments, JsonOption, StoreOption, VersionOption, stage_app

if TYPE_CHECKING:
    from kerncap_stages.digest import Digest
    from kerncap_stages.manifests.base import Dim3
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.environment import Environment
    from kerncap_stages.manifests.kernel import CodeObject
    from kerncap_stages.manifests.replay import Comparison, Replay
    from kerncap_stages.replaying.runner import ReplayRequest, ReplayResult
    from kerncap_stages.store import Store, Transaction

app = stage_app()
_LONGEST_MISMATCH_LIST = 8


@dataclass(frozen=True)
class ReplayOptions:
    """How a capture is run again."""

    variant: Path | None = None
    interleave: bool = False
    iterations: int = 1
    warmup: int = 0
    flush_cache: bool = False
    hip_launch: bool = False
    verify: bool = True
    dump_folder: Path | None = None
    grid_work_items: Dim3 | None = None
    block_work_items: Dim3 | None = None
    dynamic_lds_bytes: int | None = None
    timeout_s: float | None = 300.0
    device: int | None = None


def run_replay(store: Store, digest: Digest, options: ReplayOptions) -> tuple[Digest, Replay, ReplayResult]:
    """Run a capture again and publish what came of it; a fault, a crash or a time-out is a result.

    Raises what keeps it from being run: Refused, DeviceError, ArtifactError.
    """
    from kerncap_stages.manifests import dump
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.codec import load_as
    from kerncap_stages.replaying.runner import replay_capture

    capture = load_as(store, digest, Capture)
    if options.variant is not None and not options.variant.is_file():
        raise UsageError(
            f"no such code object: {options.variant}", hint="give the output of `make recompile`"
        )
    request = _request(capture, options)
    result = replay_capture(store, capture, request)
    with store.transaction() as transaction:
        manifest = _manifest(transaction, digest, capture, options, result)
        made = transaction.publish(dump(manifest), "replay", [digest])
    return made, manifest, result


def _request(capture: Capture, options: ReplayOptions) -> ReplayRequest:
    from kerncap_stages.replaying.runner import ReplayRequest

    devices = {} if options.device is None else {capture.dispatch.device_index: options.device}
    return ReplayRequest(
        variant=options.variant,
        iterations=options.iterations,
        warmup=options.warmup,
        flush_cache=options.flush_cache,
        # A launch of another shape is another computation.
        compare=capture.has_post and options.grid_work_items is None and options.block_work_items is None,
        interleave=options.interleave,
        hip_launch=options.hip_launch,
        verify=options.verify,
        dump_folder=options.dump_folder,
        grid_work_items=options.grid_work_items,
        block_work_items=options.block_work_items,
        dynamic_lds_bytes=options.dynamic_lds_bytes,
        timeout_s=options.timeout_s,
        devices=devices,
    )


def _manifest(
    transaction: Transaction, digest: Digest, capture: Capture, options: ReplayOptions, result: ReplayResult
) -> Replay:
    from kerncap_stages import __version__
    from kerncap_stages.digest import ManifestRef
    from kerncap_stages.manifests.replay import Overrides, Replay, ReplayPlan
    from kerncap_stages.manifests.timing import TimeSource
    from kerncap_stages.replaying.timing import compare, summarise

    environment = _environment(capture, result)
    software = environment.devices[0].software if environment.devices else False
    source = TimeSource.SOFTWARE_GPU if software else TimeSource.DEVICE
    baseline = summarise(result.baseline_ns, source, result.baseline_instructions)
    variant = summarise(result.variant_ns, source, result.variant_instructions)
    comparison = compare(baseline, variant) if options.interleave and baseline and variant else None
    actual = capture.dispatch.device_index if options.device is None else options.device
    moved = ((capture.dispatch.device_index, actual),) if actual != capture.dispatch.device_index else ()
    return Replay(
        parents=(ManifestRef.to(digest),),
        made_by=f"kerncap-stages {__version__}",
        capture=ManifestRef.to(digest),
        environment=environment,
        variant=None if options.variant is None else _code_object(transaction, options.variant),
        plan=ReplayPlan(
            iterations=options.iterations,
            warmup=options.warmup,
            flush_cache=options.flush_cache,
            hip_launch=result.hip_launch,
            timeout_ns=None if options.timeout_s is None else int(options.timeout_s * 1e9),
            overrides=Overrides(
                grid_work_items=options.grid_work_items,
                block_work_items=options.block_work_items,
                dynamic_lds_bytes=options.dynamic_lds_bytes,
            ),
            devices=moved,
        ),
        outcome=result.outcome,
        explanation=result.explanation,
        exit_code=result.exit_code,
        exit_signal=result.exit_signal,
        timing=variant if options.variant is not None else baseline,
        comparison=comparison,
        matches_golden=result.matches_golden,
        restored_size_bytes=result.restored_size_bytes,
        restore_ns=result.restore_ns,
    )


def _environment(capture: Capture, result: ReplayResult) -> Environment:
    """The machine of the replay: what it told of its device, and what the capture knows of that kind."""
    captured = capture.environment.devices[capture.dispatch.device_index]
    device = captured.model_copy(
        update={
            "index": 0,
            "name": result.device_name or captured.name,
            "isa": result.device_isa or captured.isa,
            "software": captured.software
            if not result.device_name
            else "software" in result.device_name.lower(),
            "uuid": None,
            "pci_address": None,
        }
    )
    return capture.environment.model_copy(
        update={
            "recorded_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "runtime_version": result.runtime_version or None,
            "devices": (device,),
        }
    )


def _code_object(transaction: Transaction, path: Path) -> CodeObject:
    from kerncap_stages.code_object import read_code_object
    from kerncap_stages.digest import FileRef
    from kerncap_stages.manifests.kernel import CodeObject

    data = path.read_bytes()
    facts = read_code_object(data)
    return CodeObject(
        payload=FileRef.to(transaction.put_bytes(data)),
        size_bytes=len(data),
        format=facts.format,
        isa=facts.isa,
        abi_version=facts.abi_version,
    )


@app.command(epilog=epilog("kc-replay @capture\nkc-replay @capture --compare variant.hsaco --iterations 100"))
def replay(
    artifacts: ArtifactArguments = None,
    variant: Annotated[
        Path | None,
        typer.Option(
            "--variant", "--hsaco", metavar="FILE", help="Run this code object instead of the captured one."
        ),
    ] = None,
    compare: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Run the captured code object and this one in turn, and compare times."
        ),
    ] = None,
    iterations: Annotated[int, typer.Option("--iterations", "-n", min=1, help="How often it is run.")] = 1,
    warmup: Annotated[int, typer.Option(min=0, help="Runs before those that count.")] = 0,
    flush_cache: Annotated[bool, typer.Option(help="Empty the device's caches before each run.")] = False,
    hip_launch: Annotated[
        bool,
        typer.Option("--hip-launch", help="Launch through the HIP runtime, where profilers of HIP see it."),
    ] = False,
    no_verify: Annotated[
        bool, typer.Option("--no-verify", help="Do not hash the snapshot again: you verified it before.")
    ] = False,
    dump_output: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write every region after the last run.")
    ] = None,
    grid: Annotated[
        str | None, typer.Option(metavar="X,Y,Z", help="Work-items, instead of those captured.")
    ] = None,
    block: Annotated[str | None, typer.Option(metavar="X,Y,Z", help="Work-items of a work-group.")] = None,
    lds: Annotated[
        int | None, typer.Option(metavar="BYTES", min=0, help="Dynamic LDS of a work-group.")
    ] = None,
    device: Annotated[int | None, typer.Option(min=0, help="Run it on this GPU.")] = None,
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.1, help="End the replay after this.")
    ] = 300.0,
    store: StoreOption = None,
    json: JsonOption = False,
    version: VersionOption = False,  # noqa: ARG001
) -> ExitCode:
    """Run a captured dispatch again and compare its results with those of the program, byte for byte."""
    from kerncap_stages.manifests.replay import ReplayOutcome
    from kerncap_stages.project.artifacts import find_capture

    if variant is not None and compare is not None:
        raise UsageError("--variant runs one code object, --compare two: give one of them")
    options = ReplayOptions(
        variant=variant or compare,
        interleave=compare is not None,
        iterations=iterations,
        warmup=warmup,
        flush_cache=flush_cache,
        hip_launch=hip_launch,
        verify=not no_verify,
        dump_folder=dump_output,
        grid_work_items=_triple("--grid", grid),
        block_work_items=_triple("--block", block),
        dynamic_lds_bytes=lds,
        timeout_s=timeout,
        device=device,
    )
    worst = ExitCode.DONE
    for number, text in enumerate(artifact_texts(artifacts)):
        each = options
        if dump_output is not None and number > 0:
            each = replace(options, dump_folder=dump_output / str(number))
        opened, capture_digest = find_capture(store, text)
        digest, made, result = run_replay(opened, capture_digest, each)
        _report(made, result)
        emit(digest, made if json else None)
        if made.outcome is not ReplayOutcome.COMPLETED:
            worst = max(worst, ExitCode.DEVICE)
        elif made.matches_golden is False and options.variant is None:
            worst = max(worst, ExitCode.ANSWER_IS_NO)
    return worst


def _triple(flag: str, text: str | None) -> Dim3 | None:
    if text is None:
        return None
    parts = [*text.split(","), "1", "1"][: max(3, text.count(",") + 1)]
    if len(parts) != 3 or not all(part.isdigit() and int(part) > 0 for part in parts):
        raise UsageError(f"{flag} takes up to three numbers above 0, not {text!r}", hint=f"{flag} 1024,1,1")
    x, y, z = (int(part) for part in parts)
    return (x, y, z)


def _report(made: Replay, result: ReplayResult) -> None:
    from kerncap_stages.manifests.replay import ReplayOutcome
    from kerncap_stages.manifests.timing import TimeSource
    from kerncap_stages.pages import formats

    if made.outcome is not ReplayOutcome.COMPLETED:
        say(f"the replay {made.outcome.value.replace('_', ' ')}: {made.explanation}")
        return
    if made.timing is not None:
        timing = made.timing
        text = f"{formats.count(len(timing.samples_ns), 'run')}, median {formats.duration(timing.median_ns)}"
        if len(timing.samples_ns) > 1:
            text += f", 5 to 95 %: {formats.duration(timing.p05_ns)} to {formats.duration(timing.p95_ns)}"
        if timing.source is TimeSource.SOFTWARE_GPU:
            text += " (of the software GPU: says nothing about hardware)"
        say(text)
        if timing.instructions is not None:
            say(_instructions(timing.instructions, made.comparison))
    if made.comparison is not None:
        ratio = made.comparison
        say(
            f"variant / baseline: {ratio.ratio:.3f} "
            f"(5 to 95 %: {ratio.ratio_p05:.3f} to {ratio.ratio_p95:.3f})"
        )
    if made.matches_golden is True:
        say(f"{formats.size(result.compared_size_bytes)} are as they were after the captured dispatch")
    elif made.matches_golden is False:
        say("NOT as after the captured dispatch:")
        for part in result.mismatches[:_LONGEST_MISMATCH_LIST]:
            name = part.name or f"region {part.base_address:#x}"
            say(
                f"  {name}: {formats.count(part.size_bytes, 'byte')} differ, "
                f"the first at +{part.first_offset_bytes:#x}"
            )
        if len(result.mismatches) > _LONGEST_MISMATCH_LIST:
            say(f"  and {len(result.mismatches) - _LONGEST_MISMATCH_LIST} more regions")
    else:
        say("not compared: there is no golden state for this launch")
    for note in result.notes:
        say(f"note: {note}")


def _instructions(counted: int, comparison: Comparison | None) -> str:
    """What the software GPU counted: its ratio is a fact about the code, and no ratio of times."""
    before = None if comparison is None else comparison.baseline.instructions
    if not before:
        return f"{counted:,} wave instructions"
    return (
        f"wave instructions, variant / baseline: {counted / before:.3f} ({counted:,} of {before:,}; "
        "counted by the software GPU, not a ratio of times)"
    )


def main() -> None:
    """Run the stage."""
    run(app)
