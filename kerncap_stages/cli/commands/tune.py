"""kc-tune: search for the fastest configuration of a project."""

from __future__ import annotations

from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from kerncap_stages.cli.console import make_epilog, run
from kerncap_stages.cli.evaluate_options import (
    DEFAULTS,
    HeldOutOption,
    JudgingOptions,
    LinesOption,
    OnOption,
    VerboseOption,
)
from kerncap_stages.cli.option_groups import spread
from kerncap_stages.cli.options import (
    JsonOption,
    StoreOption,
    VersionOption,
    check_seconds_option,
    make_stage_app,
)
from kerncap_stages.errors import DeviceError, ExitCode

app = make_stage_app()


class SamplerName(StrEnum):
    """What proposes configurations."""

    TPE = "tpe"
    RANDOM = "random"
    GRID = "grid"


ProjectArgument = Annotated[
    str,
    typer.Argument(
        metavar="PROJECT", help="The folder of a generated project, with its captures.", show_default=False
    ),
]
InitOption = Annotated[
    bool,
    typer.Option("--init", help="Write a tune.toml to begin with into the project, and do nothing else."),
]
ParametersOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="The parameters. Default: tune.toml in the project."),
]
TrialsOption = Annotated[
    int,
    typer.Option(
        metavar="N",
        min=0,
        max=1_000_000,
        help="Configurations that are judged in all, those of earlier runs included; 0: no new ones.",
    ),
]
MaxTimeOption = Annotated[
    float | None,
    typer.Option(metavar="SECONDS", callback=check_seconds_option, help="End the search after this time."),
]
JobsOption = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        max=1024,
        help="Proposals that are compiled and judged at the same time. Default: two for each worker.",
    ),
]
SamplerOption = Annotated[
    SamplerName,
    typer.Option(help="What proposes: Optuna's TPE, chance, or the whole grid in order."),
]
SearchSeedOption = Annotated[
    int | None,
    typer.Option(metavar="N", min=0, max=2**32 - 1, help="Seed of the proposals. Default: a random one."),
]
ApplyOption = Annotated[
    bool,
    typer.Option(
        "--apply",
        help="Make the best configuration the project's variant. What changes is kept in tune/before-N.",
    ),
]


@app.command(
    epilog=make_epilog(
        "kc-tune ./isolated/scale --init            # then edit ./isolated/scale/tune.toml\n"
        "kc-tune ./isolated/scale --trials 50\n"
        "kc-tune ./isolated/scale --trials 0 --apply"
    )
)
@spread
def tune(
    project: ProjectArgument,
    init: InitOption = False,
    parameters: ParametersOption = None,
    trials: TrialsOption = 100,
    max_time: MaxTimeOption = None,
    sampler: SamplerOption = SamplerName.TPE,
    seed: SearchSeedOption = None,
    jobs: JobsOption = None,
    apply: ApplyOption = False,
    judging: JudgingOptions = DEFAULTS,
    on: OnOption = None,
    held_out: HeldOutOption = None,
    lines: LinesOption = None,
    verbose: VerboseOption = False,
    store: StoreOption = None,
    json: JsonOption = False,
    version: VersionOption = False,  # noqa: ARG001 - the option acts by itself
) -> ExitCode:
    """Search for the fastest configuration of a project: -D values, flags, launches, Triton's constants.

    The project's tune.toml says what is tried. Each configuration is compiled, judged as kc-evaluate does,
    and timed if it is right. The same command goes on where an earlier one ended. Prints the digest of the
    newest evaluation. Ends with 0 if a configuration is right, with 1 if none is.
    """
    if find_spec("optuna") is None:
        raise DeviceError(
            "the Python package optuna is not installed", hint="pip install 'kerncap-stages[tune]'"
        )
    from kerncap_stages.cli.flows import tune as flow

    if init:
        return flow.begin(store, project)
    arguments = flow.TuneArguments(
        project=project,
        parameters=parameters,
        trials=trials,
        max_time_s=max_time,
        sampler=sampler.value,
        seed=seed,
        jobs=jobs,
        held_out=tuple(held_out or ()),
        judging=judging,
        on=on,
        apply=apply,
        lines=lines,
        verbose=verbose,
        as_json=json,
    )
    return flow.tune_project(store, arguments)


def main() -> None:
    """Run the stage."""
    run(app)
