"""kc-store's commands that put contents into the store and take them out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from kerncap_stages.cli.commands.store_cli.shared import open_store, print_digests
from kerncap_stages.cli.console import epilog, require_output
from kerncap_stages.cli.inputs import artifact_texts
from kerncap_stages.cli.options import ArtifactArguments, OneArtifactArgument, StoreOption, stage_app

app = stage_app()


@app.command("export", epilog=epilog("kc-store export @capture --output capture.kcar"))
def export_(
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The archive to write.")],
    artifacts: ArtifactArguments = None,
    store: StoreOption = None,
) -> None:
    """Write artifacts with all that they need as one file."""
    from kerncap_stages.cli.progress import progress
    from kerncap_stages.errors import UsageError
    from kerncap_stages.store.archive import export

    if output.exists():
        raise UsageError(f"{output} exists", hint="give a new name: nothing is ever overwritten")
    opened = open_store(store)
    digests = [opened.resolve(text) for text in artifact_texts(artifacts)]
    with progress("exporting", counts_bytes=True) as report_progress:
        export(opened, digests, output, report_progress)


@app.command("import", epilog=epilog("kc-store import capture.kcar | kc-show"))
def import_(
    archives: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Archives that `kc-store export` wrote.")
    ],
    store: StoreOption = None,
) -> None:
    """Add the artifacts of archives, verified.

    Prints their digests.
    """
    from kerncap_stages.cli.progress import progress
    from kerncap_stages.store.archive import import_archive

    opened = open_store(store, create=True)
    for archive in archives:
        with progress("importing", counts_bytes=True) as report_progress:
            digests = import_archive(opened, archive, report_progress)
        print_digests(digests)


@app.command(epilog=epilog("kc-store put model.bin results/"))
def put(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Files or folders.")],
    store: StoreOption = None,
) -> None:
    """Put files or folders into the store.

    Prints one digest for each.
    """
    from kerncap_stages.store.files import put_path

    opened = open_store(store, create=True)
    for path in paths:
        print_digests([put_path(opened, path)[0]])


@app.command(epilog=epilog("kc-store get @files copy/"))
def get(
    artifact: OneArtifactArgument,
    destination: Annotated[
        Path | None,
        typer.Argument(
            metavar="PATH", help="Where to; else its own name, in this folder.", show_default=False
        ),
    ] = None,
    store: StoreOption = None,
) -> None:
    """Take files out of the store again, verified.

    Nothing is ever overwritten.
    """
    from kerncap_stages.manifests import load_as
    from kerncap_stages.manifests.files import Files
    from kerncap_stages.store.files import get_files

    opened = open_store(store)
    manifest = load_as(opened, opened.resolve(artifact), Files)
    get_files(opened, manifest, destination or Path(manifest.name))


@app.command(epilog=epilog("kc-store cat @files model.bin | xxd\nkc-store cat memory:DIGEST > region.bin"))
def cat(
    what: Annotated[
        str,
        typer.Argument(metavar="ARTIFACT|REFERENCE", help="An artifact, `file:DIGEST` or `memory:DIGEST`."),
    ],
    path: Annotated[
        str | None, typer.Argument(metavar="PATH", help="A file in the artifact.", show_default=False)
    ] = None,
    store: StoreOption = None,
) -> None:
    """Write an object to standard output, verified.

    A manifest, a file or a memory; what is damaged is not written.
    """
    from kerncap_stages.store.contents import find_content, print_content

    require_output()
    opened = open_store(store)
    content = find_content(opened, what, path)
    sys.stdout.flush()
    print_content(opened, content, sys.stdout.fileno())
