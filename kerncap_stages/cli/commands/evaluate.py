"""kc-evaluate: judge and time many variants of a kernel."""

from __future__ import annotations

from typing import Annotated

import typer

from kerncap_stages.cli.console import make_epilog, run
from kerncap_stages.cli.evaluate_options import (
    DEFAULTS,
    FreshSeedOption,
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
    complete_artifact,
    make_stage_app,
)
from kerncap_stages.errors import ExitCode, UsageError

app = make_stage_app()

SubjectArgument = Annotated[
    str,
    typer.Argument(
        metavar="CAPTURE|PROJECT",
        help="The capture that variants are judged on: a digest or its first digits, a name, `@capture`; or "
        "the folder of a generated project, with all its captures.",
        autocompletion=complete_artifact,
        show_default=False,
    ),
]
VariantArguments = Annotated[
    list[str],
    typer.Argument(
        metavar="VARIANT...",
        help="Code objects, sources (.hip, .cu, .cpp, .s), folders of both; `-` reads standard input: a "
        'path or a JSON object {"path", "name", "flags"} a line.',
        show_default=False,
    ),
]
FlagsOption = Annotated[
    str,
    typer.Option(
        metavar="TEXT",
        help="Compiler flags for all sources, beside the project's. Flags that run code or write files are "
        "refused.",
    ),
]
FreshOption = Annotated[bool, typer.Option("--fresh", help="Judge again what was judged before.")]


@app.command(
    epilog=make_epilog(
        "kc-evaluate ./isolated/scale variants/\n"
        "kc-evaluate ./isolated/scale tile.hip --flags=-DTILE=32\n"
        "generate | kc-evaluate @capture -"
    )
)
@spread
def evaluate(
    subject: SubjectArgument,
    variants: VariantArguments,
    flags: FlagsOption = "",
    judging: JudgingOptions = DEFAULTS,
    on: OnOption = None,
    seed: FreshSeedOption = None,
    held_out: HeldOutOption = None,
    fresh: FreshOption = False,
    lines: LinesOption = None,
    verbose: VerboseOption = False,
    store: StoreOption = None,
    json: JsonOption = False,
    version: VersionOption = False,  # noqa: ARG001 - the option acts by itself
) -> ExitCode:
    """Judge many variants of a kernel as kc-validate does, and time those that are right.

    Each variant is a line on standard error as soon as it is judged; a table ranks the right ones. What was
    judged before is not judged again, so after Ctrl-C the same command goes on. Prints the digest of the
    evaluation. Ends with 0 if a variant is right, with 1 if none is. kc-evaluate-serve does this over HTTP.
    """
    from kerncap_stages.cli.flows.evaluate import EvaluateArguments, evaluate_variants

    if seed is not None and (judging.quick or not judging.fresh_values):
        without = "--quick" if judging.quick else "--captured-values"
        raise UsageError(f"--seed is of fresh values, which {without} leaves out", hint="leave out one")
    arguments = EvaluateArguments(
        subject=subject,
        variants=tuple(variants),
        flags=flags,
        held_out=tuple(held_out or ()),
        judging=judging,
        seed=seed,
        on=on,
        fresh=fresh,
        lines=lines,
        verbose=verbose,
        as_json=json,
    )
    return evaluate_variants(store, arguments)


def main() -> None:
    """Run the stage."""
    run(app)
