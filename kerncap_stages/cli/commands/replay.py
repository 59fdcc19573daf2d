"""kc-replay: run a captured dispatch again, alone, at its own addresses; compare its results, or time it."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kerncap_stages.cli.console import emit, epilog, run, say, with_typed_store
from kerncap_stages.cli.inputs import artifact_texts
from kerncap_stages.cli.options import (
    ArtifactOrLatestArguments,
    JsonOption,
    ReplayTimeoutOption,
    StoreOption,
    VersionOption,
    stage_app,
)
from kerncap_stages.errors import ExitCode, KerncapError, UsageError
from kerncap_stages.replay.options import MOST_WORK_ITEMS, ReplayOptions

if TYPE_CHECKING:
    from kerncap_stages.digest import Digest
    from kerncap_stages.manifests.base import Dim3
    from kerncap_stages.manifests.replay import Replay
    from kerncap_stages.replay.report import ReplayResult
    from kerncap_stages.store import Store

app = stage_app()
_MOST_IN_BLOCK = 1024  # of either vendor


def run_replay(store: Store, digest: Digest, options: ReplayOptions) -> tuple[Digest, Replay, ReplayResult]:
    """Run a capture again and publish what came of it; a fault, a crash or a time-out is a result.

    Raises what keeps it from being run: Refused, DeviceError, ArtifactError.
    """
    from kerncap_stages.manifests import dump
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.codec import load_as
    from kerncap_stages.project.artifacts import unedited_of
    from kerncap_stages.replay.record import replay_manifest
    from kerncap_stages.replay.runner import replay_capture
    from kerncap_stages.replay.variant import WHAT_TO_GIVE

    capture = load_as(store, digest, Capture)
    options = options.in_work_items(capture.launch)
    if options.variant is not None and not options.variant.is_file():
        raise UsageError(
            f"no such code object: {options.variant}",
            hint=f"give {WHAT_TO_GIVE[capture.environment.backend]}",
        )
    try:
        result = replay_capture(store, capture, options.request(capture))
    except KerncapError as error:
        raise type(error)(f"capture {digest.short}: {error}", hint=error.hint) from error
    unedited = unedited_of(store, digest) if options.interleave else None
    with store.transaction() as transaction:
        manifest = replay_manifest(transaction, digest, capture, options, result, unedited)
        made = transaction.publish(dump(manifest), "replay", [digest])
    return made, manifest, result


@app.command(epilog=epilog("kc-replay @capture\nkc-replay @capture --compare variant.hsaco --iterations 100"))
def replay(
    artifacts: ArtifactOrLatestArguments = None,
    variant: Annotated[
        Path | None,
        typer.Option(
            "--variant",
            "--hsaco",
            metavar="FILE",
            help="Run this code object (CUDA: a cubin, PTX or a fatbin) instead of the captured one.",
        ),
    ] = None,
    compare: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Run the captured code object and this one in turn, and compare times."
        ),
    ] = None,
    iterations: Annotated[
        int,
        typer.Option(
            "--iterations", "-n", metavar="N", min=1, max=10**9, help="How many times the kernel is run."
        ),
    ] = 1,
    warmup: Annotated[
        int, typer.Option(metavar="N", min=0, max=10**9, help="Runs before these, which are not timed.")
    ] = 0,
    flush_cache: Annotated[
        bool,
        typer.Option("--flush-cache", help="Fill the device's caches with other memory before each run."),
    ] = False,
    hip_launch: Annotated[
        bool,
        typer.Option("--hip-launch", help="Launch through the HIP runtime, where profilers of HIP see it."),
    ] = False,
    no_verify: Annotated[
        bool, typer.Option("--no-verify", help="Do not verify the snapshot's digests again.")
    ] = False,
    dump_output: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write all memory to files there after the last run.")
    ] = None,
    grid_blocks: Annotated[
        str | None,
        typer.Option(metavar="X,Y,Z", help="Work-groups (CUDA: blocks) instead of those captured."),
    ] = None,
    grid_work_items: Annotated[
        str | None,
        typer.Option(
            "--grid-work-items",
            "--grid",
            metavar="X,Y,Z",
            help="The same in work-items (CUDA: threads, in whole blocks). --grid is the older spelling.",
        ),
    ] = None,
    block: Annotated[
        str | None,
        typer.Option(metavar="X,Y,Z", help="Work-items of a work-group (CUDA: threads of a block)."),
    ] = None,
    lds: Annotated[
        int | None,
        typer.Option(
            metavar="BYTES",
            min=0,
            max=2**32 - 1,
            help="Dynamic LDS of a work-group (CUDA: shared memory of a block).",
        ),
    ] = None,
    device: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Run it on this GPU, counted from 0.")
    ] = None,
    timeout: ReplayTimeoutOption = 300.0,
    store: StoreOption = None,
    json: JsonOption = False,
    version: VersionOption = False,  # noqa: ARG001
) -> ExitCode:
    """Run a captured dispatch again and compare its results with those of the program, byte for byte."""
    from kerncap_stages.cli.artifacts import find_captures, list_for_user
    from kerncap_stages.cli.progress import phases
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.codec import load_as
    from kerncap_stages.manifests.replay import ReplayOutcome
    from kerncap_stages.project.built import about_variant
    from kerncap_stages.replay.result_lines import result_lines
    from kerncap_stages.text.terminal import printable

    if variant is not None and compare is not None:
        raise UsageError("--variant runs one code object, --compare two", hint="give one of them")
    if grid_blocks is not None and grid_work_items is not None:
        raise UsageError("--grid-blocks and --grid-work-items say the same", hint="give one of them")
    options = ReplayOptions(
        variant=variant or compare,
        interleave=compare is not None,
        iterations=iterations,
        warmup=warmup,
        flush_cache=flush_cache,
        hip_launch=hip_launch,
        verify=not no_verify,
        dump_folder=dump_output,
        grid_work_items=_triple("--grid-work-items", grid_work_items),
        grid_blocks=_triple("--grid-blocks", grid_blocks),
        block_work_items=_block(block),
        dynamic_lds_bytes=lds,
        timeout_s=timeout,
        device=device,
    )
    if options.variant is not None and options.variant.is_file():
        for note in about_variant(options.variant.parent, options.variant):
            say(f"note: {printable(note)}")
    worst = ExitCode.DONE
    number = 0
    for text in artifact_texts(artifacts, otherwise="@capture"):
        opened, captures = find_captures(store, text)
        for capture in captures:
            each = options
            if dump_output is not None and number > 0:
                each = replace(options, dump_folder=dump_output / str(number))
            number += 1
            if len(captures) > 1:
                name = load_as(opened, capture, Capture).kernel.demangled_name
                say(f"{printable(name)}:")
            with phases(counting_bytes="restore") as report:
                digest, made, result = run_replay(opened, capture, replace(each, progress=report))
            for line in result_lines(made, result):
                say(with_typed_store(line) if "next: " in line else line)
            if (unlisted := list_for_user(opened, digest, store)) is not None:
                say(f"note: {printable(unlisted)}")
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
    if len(parts) != 3 or not all(re.fullmatch("0*[1-9][0-9]{0,9}", part) for part in parts):
        raise UsageError(f"{flag} takes up to three numbers above 0, not {text!r}", hint=f"{flag} 1024,1,1")
    x, y, z = (int(part) for part in parts)
    if max(x, y, z) > MOST_WORK_ITEMS:
        raise UsageError(f"{flag} {text}: at most {MOST_WORK_ITEMS} fit", hint="give a smaller shape")
    return (x, y, z)


def _block(text: str | None) -> Dim3 | None:
    block = _triple("--block", text)
    if block is not None and math.prod(block) > _MOST_IN_BLOCK:
        raise UsageError(
            f"--block {text}: {math.prod(block)} work-items, and at most {_MOST_IN_BLOCK} make a work-group",
            hint="give a smaller shape",
        )
    return block


def main() -> None:
    """Run the stage."""
    run(app)
