"""kc-store's commands that put files into the store and take them out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kerncap_stages.cli.console import make_epilog
from kerncap_stages.cli.options import ArtifactArguments, OneArtifactArgument, StoreOption, make_stage_app

app = make_stage_app()


@app.command("export", epilog=make_epilog("kc-store export @capture --output capture.kcar"))
def export_(
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The archive to write.")],
    artifacts: ArtifactArguments = None,
    store: StoreOption = None,
) -> None:
    """Write artifacts, with everything that they refer to, to one archive."""
    from kerncap_stages.cli.flows.store_transfer import export_artifacts

    export_artifacts(store, artifacts, output)


@app.command("import", epilog=make_epilog("kc-store import capture.kcar | kc-show"))
def import_(
    archives: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Archives that `kc-store export` wrote.")
    ],
    store: StoreOption = None,
) -> None:
    """Verify archives and add their artifacts to the store.

    Prints the digests of the artifacts.
    """
    from kerncap_stages.cli.flows.store_transfer import import_archives

    import_archives(store, archives)


@app.command(epilog=make_epilog("kc-store put model.bin results/"))
def put(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Files or folders.")],
    store: StoreOption = None,
) -> None:
    """Put files or folders into the store.

    Prints one digest for each.
    """
    from kerncap_stages.cli.flows.store_transfer import put_paths

    put_paths(store, paths)


@app.command(epilog=make_epilog("kc-store get @files copy/"))
def get(
    artifact: OneArtifactArgument,
    destination: Annotated[
        Path | None,
        typer.Argument(
            metavar="PATH",
            help="The file or folder to write. Default: the artifact's own name, in this folder.",
            show_default=False,
        ),
    ] = None,
    store: StoreOption = None,
) -> None:
    """Verify stored files and write them to a folder.

    Never overwrites a file.
    """
    from kerncap_stages.cli.flows.store_transfer import get_artifact

    get_artifact(store, artifact, destination)


@app.command(
    epilog=make_epilog("kc-store cat @files model.bin | xxd\nkc-store cat memory:DIGEST > region.bin")
)
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
    """Verify an object and write it to standard output.

    The object is a manifest, a file or a memory. Damaged bytes are not written.
    """
    from kerncap_stages.cli.flows.store_transfer import print_object

    print_object(store, what, path)
