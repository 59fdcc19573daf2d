"""What the documented commands share: their exit codes and several options."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from kerncap_stages.cli.console import make_epilog, run, say
from kerncap_stages.compat.client import Kerncap
from kerncap_stages.compat.plain_json import replace_non_finite
from kerncap_stages.errors import ExitCode
from kerncap_stages.text.terminal import make_printable

EXIT_CODES = """\
Exit codes: 0 done, or PASS; 1 FAIL, or any other failure; 2 wrong usage;
128 + N ended by signal N."""

ProjectArgument = Annotated[
    Path,
    typer.Argument(metavar="DIR", help="The project's folder, or `capture` in it.", show_default=False),
]
HsacoOption = Annotated[
    Path | None,
    typer.Option(
        "--hsaco",
        "--variant",
        metavar="FILE",
        help="A rebuilt code object. It is searched in the working folder, then in DIR.",
        show_default=False,
    ),
]
IterationsOption = Annotated[
    int,
    typer.Option(
        "--iterations",
        "-n",
        metavar="N",
        min=1,
        help="How many times to run it, each from the captured state.",
    ),
]
DumpOption = Annotated[
    bool, typer.Option("--dump-output", help="Write all memory to DIR/output after the last run.")
]
HipLaunchOption = Annotated[
    bool, typer.Option("--hip-launch", help="Launch through the HIP runtime instead of HSA.")
]


def make_documented_epilog(example: str) -> str:
    """Return the text below the options in ``--help``: an example, and the documented exit codes."""
    return make_epilog(example, EXIT_CODES)


def run_documented(app: typer.Typer) -> NoReturn:
    """Run an application. The exit code is 2 for wrong usage, and 1 for any other failure."""
    try:
        run(app)
    except SystemExit as leaving:
        done = leaving.code in (None, ExitCode.DONE)
        sys.exit(0 if done else ExitCode.USAGE if leaving.code == ExitCode.USAGE else 1)


def replay_command(
    folder: Path, hsaco: Path | None, iterations: int, *, dump: bool, hip: bool, timeout: float, as_json: bool
) -> int:
    """Do what ``kerncap replay`` and ``kerncap-replay`` do: replay, report, and return the exit code."""
    result = Kerncap().replay(folder, hsaco, iterations, dump, hip, timeout=timeout)
    if as_json:
        print_json(result.report)
    else:
        print(result.stdout, end="")
    for line in result.stderr.splitlines():
        say(f"note: {make_printable(line)}")
    return 0 if result.returncode == 0 else 1


def print_json(value: object) -> None:
    """Write indented JSON to standard output."""
    print(json.dumps(replace_non_finite(value), indent=2, allow_nan=False))
