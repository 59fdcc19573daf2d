"""kc-validate: check that a rebuilt kernel gives the captured kernel's results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kerncap_stages.cli.console import make_epilog, run
from kerncap_stages.cli.options import (
    ArtifactOrProjectArguments,
    FreshValuesOption,
    JsonOption,
    QuickOption,
    ReferenceOption,
    ReplayTimeoutOption,
    RtolOption,
    StoreOption,
    ToleranceOption,
    UlpOption,
    VersionOption,
    make_stage_app,
)
from kerncap_stages.errors import ExitCode, UsageError

app = make_stage_app()


VariantOption = Annotated[
    Path | None,
    typer.Option(
        "--variant",
        "--hsaco",
        metavar="FILE",
        help="The rebuilt code object (CUDA: a cubin, PTX or a fatbin).",
    ),
]
BaselineOption = Annotated[
    bool, typer.Option("--baseline", help="Check the captured kernel itself, not the rebuilt one.")
]
DtypeOption = Annotated[
    str | None,
    typer.Option(
        metavar="TYPE",
        help="Element type of all outputs: fp64 fp32 fp16 bf16 fp8_... int32 ... Default: the argument's.",
    ),
]
RunsOption = Annotated[
    int, typer.Option(metavar="N", min=1, help="Runs of the captured kernel if there is no variant.")
]
VariantRunsOption = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        max=10**9,
        help="Runs of the variant from the captured pre-state, compared with each other. Default: as many as "
        "a tenth of a second allows, at least 2 and at most 32.",
    ),
]
SeedOption = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=0,
        max=2**63 - 1,
        help="The seed of the inputs' fresh values. Default: a random one; a failed verdict names it.",
    ),
]
HeldOutOption = Annotated[
    list[str] | None,
    typer.Option(
        "--held-out",
        metavar="CAPTURE",
        help="Also judge the variant on this capture, which the project does not hold. May be repeated.",
    ),
]
ExpectCaptureOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="DIGEST",
        help="The capture that the verdict must be on, with all 64 digits. Can be given several times.",
    ),
]
GridBlocksOption = Annotated[
    str | None,
    typer.Option(
        metavar="X,Y,Z",
        help="The variant's grid in work-groups (CUDA: blocks), if it is not as captured. This option, "
        "--block and --lds replace what the file NAME.shape.json beside the variant says.",
    ),
]
BlockOption = Annotated[
    str | None,
    typer.Option(
        metavar="X,Y,Z", help="Work-items of the variant's work-groups (CUDA: threads of its blocks)."
    ),
]
LdsOption = Annotated[
    int | None,
    typer.Option(
        metavar="BYTES",
        min=0,
        max=2**32 - 1,
        help="Dynamic LDS of the variant's work-groups (CUDA: shared memory of its blocks).",
    ),
]
ReportOption = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Write an HTML page to DIR, with pictures of where outputs differ."),
]
VerboseOption = Annotated[bool, typer.Option("--verbose", "-v", help="Also show outputs that pass.")]
FreshOption = Annotated[bool, typer.Option("--fresh", help="Replay again even if nothing has changed.")]


@app.command(
    epilog=make_epilog(
        "kc-validate ./isolated/scale        the rebuilt kernel there, byte for byte\n"
        "kc-validate @capture --variant new.hsaco --dtype fp32 --ulp 2\n"
        "kc-validate ./isolated/scale --seed 4242        the values of an earlier verdict\n"
        "kc-validate ./isolated/scale --rtol 1e-3 --reference reference.py\n"
        "kc-validate ./isolated/scale --expect-capture $DIGEST --held-out $UNSEEN"
    )
)
def validate(
    artifacts: ArtifactOrProjectArguments = None,
    variant: VariantOption = None,
    baseline: BaselineOption = False,
    tolerance: ToleranceOption = None,
    rtol: RtolOption = None,
    ulp: UlpOption = None,
    dtype: DtypeOption = None,
    reference: ReferenceOption = None,
    runs: RunsOption = 2,
    variant_runs: VariantRunsOption = None,
    quick: QuickOption = False,
    fresh_values: FreshValuesOption = True,
    seed: SeedOption = None,
    expect_capture: ExpectCaptureOption = None,
    held_out: HeldOutOption = None,
    grid_blocks: GridBlocksOption = None,
    block: BlockOption = None,
    lds: LdsOption = None,
    report: ReportOption = None,
    verbose: VerboseOption = False,
    fresh: FreshOption = False,
    timeout: ReplayTimeoutOption = 300.0,
    store: StoreOption = None,
    json: JsonOption = False,
    version: VersionOption = False,  # noqa: ARG001 - the option acts by itself
) -> ExitCode:
    """Compare what a rebuilt kernel writes with what the captured kernel wrote in the program.

    Takes a project's folder or a capture. In a project the variant is candidate.hsaco, else optimized.hsaco
    (CUDA: candidate.cubin, else optimized.cubin, else optimized.ptx). Without a variant, the captured kernel
    itself is checked. Without a tolerance, every byte must be the same. Prints the verdict's digest.
    """
    from kerncap_stages.cli.flows.validate import (
        ValidateArguments,
        make_settings,
        read_variant_shape,
        refuse_contradictions,
        require_inputs,
        validate_variants,
    )

    refuse_contradictions(variant, seed, baseline=baseline, quick=quick, fresh_values=fresh_values)
    require_inputs(store, artifacts, variant, reference, report, expect_capture or (), held_out or ())
    settings = make_settings(
        tolerance,
        rtol,
        ulp,
        dtype,
        timeout_s=timeout,
        baseline_runs=runs,
        variant_runs=variant_runs,
        perturb=not quick,
        fresh_values=fresh_values,
        seed=seed,
        reference=reference,
        of_captured_kernel=baseline,
    )
    shape = read_variant_shape(grid_blocks, block, lds)
    if baseline and shape is not None:
        raise UsageError(
            "--grid-blocks, --block and --lds say how a variant is launched, and --baseline runs none",
            hint="`kc-replay` runs the captured kernel in another shape",
        )
    arguments = ValidateArguments(
        captures=tuple(expect_capture or ()),
        held_out=tuple(held_out or ()),
        variant=variant,
        shape=shape,
        baseline=baseline,
        settings=settings,
        report=report,
        verbose=verbose,
        fresh=fresh,
        as_json=json,
    )
    return validate_variants(store, artifacts, arguments)


def main() -> None:
    """Run the stage."""
    run(app)
