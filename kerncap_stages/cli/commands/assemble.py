"""kc-assemble: put edited instructions back into the code object of a project."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kerncap_stages.cli.console import make_epilog, run
from kerncap_stages.cli.options import VersionOption, make_stage_app

app = make_stage_app()


@app.command(epilog=make_epilog("kc-assemble ./isolated/scale      `make assemble` in the project runs this"))
def assemble(
    project: Annotated[Path, typer.Argument(metavar="PROJECT", help="The project's folder.")] = Path(),
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The code object to write. Default: optimized.hsaco in the project.",
        ),
    ] = None,
    version: VersionOption = False,  # noqa: ARG001 - the option acts by itself
) -> None:
    """Put the edited instructions of a project back into its code object.

    Reads kernel_variant.s. If that file is unedited, the result is the captured code object, byte for byte.
    """
    from kerncap_stages.cli.flows.assemble import assemble_project

    assemble_project(project, output)


def main() -> None:
    """Run kc-assemble."""
    run(app)
