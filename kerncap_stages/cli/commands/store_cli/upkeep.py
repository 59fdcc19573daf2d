"""kc-store's commands that keep the store whole, small and in order."""

from __future__ import annotations

from typing import Annotated

import typer

from kerncap_stages.cli.commands.store_cli.shared import KindOption, ReportAsJson
from kerncap_stages.cli.console import make_epilog
from kerncap_stages.cli.options import ArtifactArguments, OneArtifactArgument, StoreOption, make_stage_app

app = make_stage_app()


@app.command(epilog=make_epilog("kc-store check\nkc-store check --sample 5\nkc-store check --repair"))
def check(
    sample: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=100.0,
            metavar="PERCENT",
            help="Read only this share of the objects, chosen at random.",
            show_default=False,
        ),
    ] = None,
    repair: Annotated[
        bool,
        typer.Option(
            "--repair", help="Set damaged objects aside. The stage that made one can then make it again."
        ),
    ] = False,
    json: ReportAsJson = False,
    store: StoreOption = None,
) -> None:
    """Read every object again and follow every reference.

    The exit code is 3 if an object is missing or damaged.
    """
    from kerncap_stages.cli.flows.store_upkeep import check_all

    check_all(store, percent=sample, repair=repair, as_json=json)


@app.command(epilog=make_epilog("kc-store gc --dry-run"))
def gc(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what would be removed.")] = False,
    json: ReportAsJson = False,
    store: StoreOption = None,
) -> None:
    """Remove objects that no listed or named artifact needs."""
    from kerncap_stages.cli.flows.store_upkeep import collect

    collect(store, dry_run=dry_run, as_json=json)


@app.command(epilog=make_epilog("kc-store ls\nkc-store ls --kind capture --quiet | kc-show"))
def ls(
    kind: KindOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only digests, one a line.")] = False,
    json: ReportAsJson = False,
    store: StoreOption = None,
) -> None:
    """List artifacts, newest first."""
    from kerncap_stages.cli.flows.store_list import list_artifacts

    list_artifacts(store, kind, quiet=quiet, as_json=json)


@app.command(epilog=make_epilog("kc-store du @capture"))
def du(
    artifacts: ArtifactArguments = None,
    json: ReportAsJson = False,
    store: StoreOption = None,
) -> None:
    """Show how much space artifacts take, and how much of it they share.

    If none is given and standard input is no pipe: all listed artifacts, and the whole store.
    """
    from kerncap_stages.cli.flows.store_upkeep import show_usage

    show_usage(store, artifacts, as_json=json)


@app.command(epilog=make_epilog("kc-store name before-tuning @capture"))
def name(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Letters, digits, `.`, `_` and `-`.")],
    artifact: OneArtifactArgument,
    store: StoreOption = None,
) -> None:
    """Give an artifact a name. It can be found by that name, and `kc-store prune` keeps it."""
    from kerncap_stages.cli.flows.store_list import name_artifact

    name_artifact(store, name, artifact)


@app.command(epilog=make_epilog("kc-store unname before-tuning"))
def unname(
    name: Annotated[str, typer.Argument(metavar="NAME")],
    store: StoreOption = None,
) -> None:
    """Remove a name.

    The artifact stays on the list.
    """
    from kerncap_stages.cli.flows.store_list import remove_name

    remove_name(store, name)


@app.command(epilog=make_epilog("kc-store rm @capture\nkc-store ls --kind replay --quiet | kc-store rm"))
def rm(artifacts: ArtifactArguments = None, store: StoreOption = None) -> None:
    """Remove artifacts and their names from the list.

    `kc-store gc` then frees the objects that nothing else needs.
    """
    from kerncap_stages.cli.flows.store_list import remove_artifacts

    remove_artifacts(store, artifacts)


@app.command(epilog=make_epilog("kc-store prune --keep-last 5 --kind replay"))
def prune(
    keep_last: Annotated[int, typer.Option(min=0, metavar="N", help="How many of each kind to keep.")],
    kind: KindOption = None,
    store: StoreOption = None,
) -> None:
    """Remove all but the latest artifacts of each kind from the list.

    Artifacts with a name stay. Prints the digests of the removed artifacts.
    """
    from kerncap_stages.cli.flows.store_list import prune_artifacts

    prune_artifacts(store, kind, keep_last=keep_last)
