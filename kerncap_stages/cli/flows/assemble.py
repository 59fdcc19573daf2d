"""What kc-assemble does: put a project's edited instructions into its code object, and write that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerncap_stages.cli.console import say
from kerncap_stages.errors import UsageError
from kerncap_stages.generate.assembly import assemble
from kerncap_stages.generate.hip_project import HipProject
from kerncap_stages.machine.user_folder import write_file
from kerncap_stages.manifests import load_as
from kerncap_stages.manifests.capture import Capture
from kerncap_stages.project.folder import open_project
from kerncap_stages.store import Store
from kerncap_stages.text.terminal import make_printable

if TYPE_CHECKING:
    from pathlib import Path

    from kerncap_stages.generate.assembly import Assembled
    from kerncap_stages.project.folder import Project


def assemble_project(folder: Path, output: Path | None) -> None:
    """Assemble a project's instructions and write the code object to ``output``, else into the project."""
    target = output or folder / "optimized.hsaco"
    made = run_assemble(open_project(folder))
    if output is None:
        write_file(folder, target.name, made.code)
    else:
        target.write_bytes(made.code)
    if made.warnings:
        say(make_printable(made.warnings, keep_lines=True))
    say(f"{target}: {len(made.code):,} bytes")


def run_assemble(project: Project) -> Assembled:
    """Put the instructions of a project's ``kernel_variant.s`` into its code object.

    Raises UsageError if there is no such file, or with the assembler's messages if it has errors.
    """
    source = project.folder / HipProject.assembly
    if not source.is_file():
        raise UsageError(f"no such file: {source}", hint="make the project with kc-generate --assembly")
    store = Store.open(project.store, create=False)
    kernel = load_as(store, project.captures[0], Capture).kernel
    code = store.get(kernel.code_digest)
    return assemble(source.read_text(), code, kernel.mangled_name)
