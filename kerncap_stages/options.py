"""Options and arguments that executables share, with one wording and one completion."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from kerncap_stages.console import version_text


def _print_version(wanted: bool) -> None:
    if wanted:
        print(version_text(os.path.basename(sys.argv[0])))  # noqa: PTH119 - pathlib is not needed for this
        raise typer.Exit


ArtifactArguments = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="ARTIFACT",
        help="Digest, the start of one, name, `@` for the latest, `@capture` for the latest of a kind; "
        "without any: one a line from standard input.",
        show_default=False,
    ),
]
StoreOption = Annotated[
    Path | None,
    typer.Option(
        "--store",
        metavar="DIR",
        help="The store; else KERNCAP_STORE, else a folder in the user's data folder.",
        show_default=False,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the manifest instead of its digest.")]
VersionOption = Annotated[
    bool,
    typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True),
]


def stage_app(*, help_text: str) -> typer.Typer:
    """Return the typer application of an executable.

    Plain help (no markup) and no typer tracebacks: rich would double the time of ``--help``.
    """
    return typer.Typer(
        help=help_text,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        no_args_is_help=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
