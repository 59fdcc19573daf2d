"""kc-assemble: put edited instructions back into the code object of a project."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kerncap_stages.cli.console import epilog, run, say
from kerncap_stages.cli.options import VersionOption, stage_app

if TYPE_CHECKING:
    from kerncap_stages.generate.assembly import Assembled
    from kerncap_stages.project.checkout import Project

app = stage_app()


@app.command(epilog=epilog("kc-assemble ./isolated/scale      what `make assemble` runs there"))
def assemble(
    project: Annotated[Path, typer.Argument(metavar="PROJECT", help="The project's folder.")] = Path(),
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The code object to write; else optimized.hsaco in the project.",
        ),
    ] = None,
    version: VersionOption = False,  # noqa: ARG001 - the option acts by itself
) -> None:
    """Put the edited instructions of a project back into its code object.

    Reads kernel_variant.s. Without an edit the result is the captured code object, byte for byte.
    """
    from kerncap_stages.machine.user_folder import write_file
    from kerncap_stages.project.checkout import open_project
    from kerncap_stages.text.terminal import printable

    target = output or project / "optimized.hsaco"
    made = run_assemble(open_project(project))
    if output is None:
        write_file(project, target.name, made.code)
    else:
        target.write_bytes(made.code)
    if made.warnings:
        say(printable(made.warnings, keep_lines=True))
    say(f"{target}: {len(made.code):,} bytes")


def main() -> None:
    """Run kc-assemble."""
    run(app)


def run_assemble(project: Project) -> Assembled:
    """The code object of a project with the instructions of its ``kernel_variant.s``.

    Raises UsageError if there is no such file, or with the assembler's words for what is wrong in it.
    """
    from kerncap_stages.errors import UsageError
    from kerncap_stages.generate.assembly import assemble as assembled
    from kerncap_stages.generate.hip_project import HipProject
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.codec import load_as
    from kerncap_stages.store import Store

    source = project.folder / HipProject.assembly
    if not source.is_file():
        raise UsageError(f"no such file: {source}", hint="make the project with kc-generate --assembly")
    store = Store.open(project.store, create=False)
    kernel = load_as(store, project.captures[0], Capture).kernel
    code = store.get(kernel.code_object.payload.digest)
    return assembled(source.read_text(), code, kernel.mangled_name)
