"""kc-generate: make a project in which one captured kernel can be edited, rebuilt, replayed and validated."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kerncap_stages.cli.console import epilog, run
from kerncap_stages.cli.options import (
    ArtifactArguments,
    JsonOption,
    StoreOption,
    VersionOption,
    stage_app,
)

app = stage_app(help_text="Make a project from a captured kernel.")


OutputOption = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="DIR", help="The project's folder; else ./isolated/KERNEL."),
]
SourceDirOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--source-dir",
        "-s",
        metavar="DIR",
        help="Where the kernel's source lies; else where the program ran or lies. May be repeated.",
    ),
]
TogetherOption = Annotated[
    bool,
    typer.Option("--together", help="One project for all kernels, which must be of one translation unit."),
]
AssemblyOption = Annotated[
    bool,
    typer.Option("--assembly", help="Edit the kernel's instructions, even if its source is known."),
]
ForceOption = Annotated[bool, typer.Option("--force", help="Overwrite files that were edited.")]
FreshOption = Annotated[
    bool, typer.Option("--fresh", help="Make it again even if nothing has changed; edits are kept.")
]


@app.command(
    epilog=epilog(
        "kc-profile -- ./app | kc-capture | kc-generate\n"
        "kc-generate @capture --source-dir ./src --output ./isolated/scale"
    )
)
def generate(
    artifacts: ArtifactArguments = None,
    output: OutputOption = None,
    source_dir: SourceDirOption = None,
    together: TogetherOption = False,
    assembly: AssemblyOption = False,
    force: ForceOption = False,
    fresh: FreshOption = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
    version: VersionOption = False,  # noqa: ARG001 - the option acts by itself
) -> None:
    """Make a project in which one captured kernel can be edited, rebuilt, replayed and validated.

    Takes a capture, whose source is located first, or what kc-locate printed. Of a kernel without source the
    instructions are edited. The folder can be moved to another machine. Prints the digest of one reproducer
    artifact for each.
    """
    from kerncap_stages.cli.flows.generate import generate_projects

    generate_projects(
        store,
        artifacts,
        output,
        source_dirs=source_dir or (),
        together=together,
        assembly=assembly,
        force=force,
        fresh=fresh,
        as_json=as_json,
    )


def main() -> None:
    """Run the stage."""
    run(app)
