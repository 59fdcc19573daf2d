"""kc-replay: run a captured dispatch again, alone, at its original addresses; compare or time it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kerncap_stages.cli.console import make_epilog, run
from kerncap_stages.cli.options import (
    ArtifactOrLatestArguments,
    JsonOption,
    ReplayTimeoutOption,
    StoreOption,
    VersionOption,
    make_stage_app,
    one_value,
)
from kerncap_stages.errors import ExitCode, UsageError
from kerncap_stages.replay.options import ReplayOptions

app = make_stage_app()


VariantOption = Annotated[
    Path | None,
    typer.Option(
        "--variant",
        "--hsaco",
        metavar="FILE",
        help="Run this code object (CUDA: a cubin, PTX or a fatbin) instead of the captured one.",
    ),
]
CompareOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Run the captured code object and this one in turn, and compare their times."
    ),
]
HeldOutOption = Annotated[
    list[str] | None,
    typer.Option(
        "--held-out",
        metavar="CAPTURE",
        help="Also replay this capture, which the project does not hold. May be repeated.",
    ),
]
IterationsOption = Annotated[
    int | None,
    typer.Option(
        "--iterations",
        "-n",
        metavar="N",
        min=1,
        max=10**9,
        help="How many times to run the kernel. Default: 1; with --compare 10, each in turn.",
    ),
]
WarmupOption = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=0,
        max=10**9,
        help="Untimed runs before the iterations. Default: 0; with --compare and no --iterations 1.",
    ),
]
FlushCacheOption = Annotated[
    bool,
    typer.Option("--flush-cache", help="Fill the device's caches with other memory before each run."),
]
HipLaunchOption = Annotated[
    bool,
    typer.Option(
        "--hip-launch", help="Launch through the HIP runtime, so that HIP's profilers see the kernel."
    ),
]
NoVerifyOption = Annotated[
    bool, typer.Option("--no-verify", help="Do not verify the digests of the captured memory.")
]
DumpOutputOption = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Write all memory to files in DIR after the last run.")
]
GridBlocksOption = Annotated[
    str | None,
    typer.Option(metavar="X,Y,Z", help="The grid in work-groups (CUDA: blocks). Default: as captured."),
]
GridWorkItemsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--grid-work-items",
        "--grid",
        metavar="X,Y,Z",
        help="The grid in work-items (CUDA: threads, in whole blocks). --grid is the older spelling.",
    ),
]
BlockOption = Annotated[
    str | None,
    typer.Option(
        metavar="X,Y,Z", help="Work-items of a work-group (CUDA: threads of a block). Default: as captured."
    ),
]
LdsOption = Annotated[
    int | None,
    typer.Option(
        metavar="BYTES",
        min=0,
        max=2**32 - 1,
        help="Dynamic LDS of a work-group (CUDA: shared memory of a block). Default: as captured.",
    ),
]
DeviceOption = Annotated[
    int | None, typer.Option(metavar="N", min=0, help="The GPU to run on, counted from 0.")
]


@app.command(
    epilog=make_epilog("kc-replay @capture\nkc-replay @capture --compare variant.hsaco --iterations 100")
)
def replay(
    artifacts: ArtifactOrLatestArguments = None,
    variant: VariantOption = None,
    compare: CompareOption = None,
    held_out: HeldOutOption = None,
    iterations: IterationsOption = None,
    warmup: WarmupOption = None,
    flush_cache: FlushCacheOption = False,
    hip_launch: HipLaunchOption = False,
    no_verify: NoVerifyOption = False,
    dump_output: DumpOutputOption = None,
    grid_blocks: GridBlocksOption = None,
    grid_work_items: GridWorkItemsOption = None,
    block: BlockOption = None,
    lds: LdsOption = None,
    device: DeviceOption = None,
    timeout: ReplayTimeoutOption = 300.0,
    store: StoreOption = None,
    json: JsonOption = False,
    version: VersionOption = False,  # noqa: ARG001
) -> ExitCode:
    """Run a captured dispatch again, and compare its results with the program's, byte for byte.

    Prints the digest of one replay artifact for each capture.
    """
    from kerncap_stages.cli.flows.replay import choose_runs, read_block, read_shape, replay_captures

    if variant is not None and compare is not None:
        raise UsageError("--variant runs one code object, --compare two", hint="give one of them")
    work_items = one_value("--grid-work-items", grid_work_items)
    if grid_blocks is not None and work_items is not None:
        raise UsageError("--grid-blocks and --grid-work-items exclude each other", hint="give one of them")
    runs, before = choose_runs(iterations, warmup, compares=compare is not None)
    options = ReplayOptions(
        variant=variant or compare,
        interleave=compare is not None,
        iterations=runs,
        warmup=before,
        flush_cache=flush_cache,
        hip_launch=hip_launch,
        verify=not no_verify,
        dump_folder=dump_output,
        grid_work_items=read_shape("--grid-work-items", work_items),
        grid_blocks=read_shape("--grid-blocks", grid_blocks),
        block_work_items=read_block(block),
        dynamic_lds_bytes=lds,
        timeout_s=timeout,
        device=device,
    )
    return replay_captures(store, artifacts, options, as_json=json, held_out=held_out or ())


def main() -> None:
    """Run the stage."""
    run(app)
