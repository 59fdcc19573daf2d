"""kc-generate: make a project in which one captured kernel can be edited, rebuilt, replayed and validated."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kerncap_stages.cli.console import make_epilog, run
from kerncap_stages.cli.options import (
    ArtifactArguments,
    ForceOption,
    JsonOption,
    SourceDirOption,
    StoreOption,
    VersionOption,
    make_stage_app,
)

app = make_stage_app(help_text="Make a project from a captured kernel.")


OutputOption = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="DIR", help="The project's folder. Default: ./isolated/KERNEL."),
]
TogetherOption = Annotated[
    bool,
    typer.Option(
        "--together",
        help="Make one project of all captures: of one kernel, or of kernels that share a translation unit.",
    ),
]
HeldOutOption = Annotated[
    list[str] | None,
    typer.Option(
        "--held-out",
        metavar="CAPTURE",
        help="Leave this one of the captures out, so that whoever edits the project does not see it; "
        "`kc-validate --held-out` judges it. An earlier project in the folder loses it, with all that was "
        "made from it. May be repeated.",
    ),
]
AssemblyOption = Annotated[
    bool,
    typer.Option(
        "--assembly", help="Make a project to edit the kernel's instructions, even if its source is known."
    ),
]
FreshOption = Annotated[
    bool, typer.Option("--fresh", help="Make the project again even if nothing has changed. Edits are kept.")
]


@app.command(
    epilog=make_epilog(
        "kc-profile -- ./app | kc-capture | kc-generate\n"
        "kc-generate @capture --source-dir ./src --output ./isolated/scale"
    )
)
def generate(
    artifacts: ArtifactArguments = None,
    output: OutputOption = None,
    source_dir: SourceDirOption = None,
    together: TogetherOption = False,
    held_out: HeldOutOption = None,
    assembly: AssemblyOption = False,
    force: ForceOption = False,
    fresh: FreshOption = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
    version: VersionOption = False,  # noqa: ARG001 - the option acts by itself
) -> None:
    """Make a project in which one captured kernel can be edited, rebuilt, replayed and validated.

    Takes captures, whose source it locates first, or the artifacts that kc-locate printed. If a kernel has no
    source, its instructions can be edited instead. The folder can be moved to another machine. Prints the
    digest of one reproducer artifact for each project.
    """
    from kerncap_stages.cli.flows.generate import generate_projects

    generate_projects(
        store,
        artifacts,
        output,
        source_dirs=source_dir or (),
        held_out=held_out or (),
        together=together,
        assembly=assembly,
        force=force,
        fresh=fresh,
        as_json=as_json,
    )


def main() -> None:
    """Run the stage."""
    run(app)
