"""Options and arguments that executables share, with one wording and one completion."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from kerncap_stages.cli.console import format_version
from kerncap_stages.errors import UsageError
from kerncap_stages.machine.time_limits import check_seconds

if TYPE_CHECKING:
    from collections.abc import Sequence


def complete_artifact(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Offer the names, `@kind` forms and digests that begin with the word."""
    try:
        # Only a shell's completion needs the store here: some stages open none.
        from kerncap_stages.store import Store

        entries = Store.open(context.params.get("store"), create=False).list_artifacts()
    except Exception:  # completing a word must never show a traceback
        return []
    offers = {name: entry.kind for entry in entries for name in entry.names}
    offers |= {f"@{entry.kind}": f"the latest {entry.kind}" for entry in entries}
    if entries:
        offers["@"] = "the latest artifact"
    offers |= {entry.digest.short: entry.kind for entry in entries}
    return [(text, about) for text, about in offers.items() if text.startswith(incomplete)]


def _print_version(wanted: bool) -> None:
    if wanted:
        print(format_version(os.path.basename(sys.argv[0])))  # noqa: PTH119 - pathlib is not needed for this
        raise typer.Exit


def check_seconds_option(param: typer.CallbackParam, value: float | None) -> float | None:
    """``callback=`` of an option that takes seconds."""
    check_seconds(param.opts[0], value)
    return value


def check_count_option(param: typer.CallbackParam, value: int | None) -> int | None:
    """``callback=`` of an option that counts dispatches: the capture library's numbers have 60 bits."""
    if value is not None and value > _MAX_COUNT:
        raise UsageError(
            f"{param.opts[0]} {value}: at most {_MAX_COUNT} dispatches", hint="give a smaller number"
        )
    return value


def one_value(name: str, values: Sequence[str] | None) -> str | None:
    """Return the value of an option that has two spellings; None if it was not given.

    Raises UsageError if it was given with different values: the last one must not win silently.
    """
    if not values:
        return None
    if len(set(values)) > 1:
        raise UsageError(
            f"{name} was given several values: {', '.join(values)}",
            hint="give one of them; --grid is the older spelling",
        )
    return values[0]


def _read_store_folder(text: str) -> Path:
    """Read the value of ``--store``. An unset shell variable must not select the working folder."""
    if not text:
        raise UsageError("--store needs a folder, not an empty text", hint="leave it out for your own store")
    return Path(text)


_MAX_COUNT = 1 << 60
_ARTIFACT = "A digest or its first digits, a name, `@` for the latest, or `@capture` for the latest of a kind"
_OR_PROJECT = f"{_ARTIFACT}; or the folder of a generated project"
_PIPED = "If none is given: read from standard input, one a line"


def _declare_artifacts(help_text: str, metavar: str = "ARTIFACT...") -> Any:
    return typer.Argument(
        metavar=metavar, help=help_text, autocompletion=complete_artifact, show_default=False
    )


ArtifactArguments = Annotated[list[str] | None, _declare_artifacts(f"{_ARTIFACT}. {_PIPED}.")]
ProfileArguments = Annotated[
    list[str] | None,
    _declare_artifacts(f"{_ARTIFACT}. {_PIPED}.".replace("@capture", "@profile"), "PROFILE..."),
]
ArtifactOrProjectArguments = Annotated[list[str] | None, _declare_artifacts(f"{_OR_PROJECT}. {_PIPED}.")]
ArtifactOrLatestArguments = Annotated[
    list[str] | None, _declare_artifacts(f"{_OR_PROJECT}. {_PIPED}; if that is no pipe, the latest is used.")
]
OneArtifactArgument = Annotated[
    str,
    typer.Argument(
        metavar="ARTIFACT",
        help=f"{_ARTIFACT}.",
        autocompletion=complete_artifact,
        show_default=False,
    ),
]
StoreOption = Annotated[
    Path | None,
    typer.Option(
        "--store",
        metavar="DIR",
        parser=_read_store_folder,
        help="The store. Default: KERNCAP_STORE, else a folder in the user's data folder.",
        show_default=False,
    ),
]
AppStdoutOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="The program's standard output. Default: standard error."),
]
AppStdinOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="The program's standard input. Default: empty.")
]
ProgramTimeoutOption = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        metavar="SECONDS",
        callback=check_seconds_option,
        help="End the program after this time.",
    ),
]
ReplayTimeoutOption = Annotated[
    float,
    typer.Option(
        "--timeout",
        metavar="SECONDS",
        callback=check_seconds_option,
        help="End each replay after this time. Time for which it waits for a processor does not count, until "
        "4 times this time have passed.",
    ),
]
ExactOption = Annotated[
    bool, typer.Option("--exact", help="NAME is the whole name, with or without parameters.")
]
RegexOption = Annotated[bool, typer.Option("--regex", help="NAME is a regular expression.")]
MangledOption = Annotated[bool, typer.Option("--mangled", help="NAME is a mangled name (a symbol).")]
RankOption = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        help="The N-th kernel of the profile. Default: the program's own kernel that takes most time.",
    ),
]
GridBlocksOption = Annotated[
    list[str] | None,
    typer.Option(
        *("--grid-blocks", "--grid"),
        metavar="X[,Y[,Z]]",
        help="Only dispatches of this many work-groups; 0 matches any. --grid is the older spelling.",
    ),
]
BlockOption = Annotated[
    str | None,
    typer.Option(metavar="X[,Y[,Z]]", help="Only dispatches of this work-group size; 0 matches any."),
]
ConfigurationOption = Annotated[
    str | None,
    typer.Option(
        "--configuration",
        metavar="NAME=VALUE,...",
        help="Only Triton kernels that were compiled with these constants, num_warps and num_stages, as a "
        "profile lists them.",
    ),
]
PostOption = Annotated[
    bool, typer.Option("--post/--no-post", help="Also capture the memory as the kernel leaves it.")
]
ReachableOption = Annotated[
    bool, typer.Option("--reachable", help="Capture only memory that the kernel's arguments point to.")
]
TrialsOption = Annotated[
    bool,
    typer.Option(
        "--trials",
        help="Also count and capture dispatches with which an autotuner (Triton's, torch.compile's) times "
        "configurations.",
    ),
]
SourceDirOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--source-dir",
        "-s",
        metavar="PATH",
        help="Folder with the kernel's source, or the file that has the kernel. Default: the program's "
        "folder and the one in which it ran. May be repeated.",
    ),
]
ForceOption = Annotated[
    bool,
    typer.Option("--force", help="Overwrite files that were edited, or a project that has more captures."),
]
HoldOption = Annotated[
    bool,
    typer.Option(
        "--hold",
        help="On NVIDIA GPUs, keep the program waiting until the capture is stored. Needed if the program "
        "may end right after the kernel. On AMD GPUs it always waits for the copies.",
    ),
]
WaitOption = Annotated[
    float,
    typer.Option(
        metavar="SECONDS",
        callback=check_seconds_option,
        help="The longest time for each wait of a capture: for earlier work, for the kernel, for each copy.",
    ),
]
MaxMemoryOption = Annotated[
    int,
    typer.Option(metavar="MIB", min=128, max=1 << 20, help="Maximum memory kc-capture may use, in MiB."),
]
ToleranceOption = Annotated[
    float | None,
    typer.Option("--tolerance", "-t", metavar="X", min=0.0, help="Largest absolute error of an element."),
]
RtolOption = Annotated[
    float | None,
    typer.Option(
        metavar="X",
        min=0.0,
        help="Largest error relative to the golden element, plus --tolerance if that is given.",
    ),
]
UlpOption = Annotated[
    int | None, typer.Option(metavar="N", min=0, help="Largest error in units in the last place (ULP).")
]
ReferenceOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="A Python file whose function `reference(args)` computes the true outputs in fp64. It is run, "
        "and a variant that is less exact than the captured kernel fails.",
    ),
]
QuickOption = Annotated[
    bool, typer.Option("--quick", help="Use only the captured pre-state, and no perturbed ones.")
]
FreshValuesOption = Annotated[
    bool,
    typer.Option(
        "--fresh-values/--captured-values",
        help="Also compare from inputs with fresh values, or only from the captured ones.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the manifest instead of its digest.")]
PageJsonOption = Annotated[bool, typer.Option("--json", help="Print the manifest instead of a page.")]
VersionOption = Annotated[
    bool,
    typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True),
]


class _Command(TyperCommand):
    """A command whose usage line shows arguments as they are typed; typer puts required ones in braces."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [
            piece[1:-1] if piece.startswith("{") else piece for piece in super().collect_usage_pieces(ctx)
        ]


class _App(typer.Typer):
    def command(self, name: str | None = None, **settings: Any) -> Any:
        return super().command(name, **{"cls": _Command} | settings)


def make_stage_app(help_text: str | None = None) -> typer.Typer:
    """Return the typer application of an executable.

    help_text: for an executable with several commands.
    Help is plain text and tracebacks are Python's: rich would double the time of ``--help``.
    """
    return _App(
        help=help_text,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        no_args_is_help=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
