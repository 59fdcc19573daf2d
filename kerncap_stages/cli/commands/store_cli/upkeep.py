"""kc-store's commands that keep the store whole, small and in order."""

from __future__ import annotations

from typing import Annotated

import typer

from kerncap_stages.cli.commands.store_cli.shared import (
    KindOption,
    ReportAsJson,
    open_store,
    show,
)
from kerncap_stages.cli.console import epilog, say, with_typed_store
from kerncap_stages.cli.inputs import artifact_texts, has_piped_input
from kerncap_stages.cli.options import ArtifactArguments, OneArtifactArgument, StoreOption, stage_app

app = stage_app()


@app.command(epilog=epilog("kc-store check\nkc-store check --sample 5\nkc-store check --repair"))
def check(
    sample: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=100.0,
            metavar="PERCENT",
            help="Read only so much of it, chosen at random.",
            show_default=False,
        ),
    ] = None,
    repair: Annotated[
        bool,
        typer.Option(
            "--repair", help="Set damaged objects aside: the stage that made one can then make it again."
        ),
    ] = False,
    json: ReportAsJson = False,
    store: StoreOption = None,
) -> None:
    """Read every object again and follow every reference.

    Ends with 3 when something is wrong.
    """
    import math

    from kerncap_stages.cli.progress import progress
    from kerncap_stages.errors import ArtifactError, UsageError
    from kerncap_stages.pages.store import check_page
    from kerncap_stages.store.check import check_store
    from kerncap_stages.text.formats import count

    if sample is not None and math.isnan(sample):
        raise UsageError("nan is no percentage", hint="`--sample 5` reads one object in twenty")
    opened = open_store(store)
    share = None if sample is None else sample / 100
    with progress("checking", counts_bytes=True) as report_progress:
        report = check_store(opened, sample=share, repair=repair, progress=report_progress)
    show(report, check_page(report), json=json)
    if not report.ok:
        kinds = {fault.kind for fault in report.faults}
        if kinds == {"stray"}:
            hint = "move these files elsewhere: nothing in the store reads them"
        elif "damaged" in kinds and not repair:
            hint = (
                "`kc-store check --repair` sets damaged objects aside; then make or import those "
                "artifacts again"
            )
        else:
            hint = "make or import the artifacts that they spoil again, or `kc-store rm` them"
        raise ArtifactError(f"{count(len(report.faults), 'fault')} in {opened.root}", hint=hint)


@app.command(epilog=epilog("kc-store gc --dry-run"))
def gc(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what would be removed.")] = False,
    json: ReportAsJson = False,
    store: StoreOption = None,
) -> None:
    """Remove objects that no artifact and no name needs."""
    from kerncap_stages.cli.progress import progress
    from kerncap_stages.pages.store import gc_page
    from kerncap_stages.store.collect import collect_garbage

    with progress("collecting", counts_bytes=True) as report_progress:
        report = collect_garbage(open_store(store), dry_run=dry_run, progress=report_progress)
    show(report, [gc_page(report)], json=json)


@app.command(epilog=epilog("kc-store ls\nkc-store ls --kind capture --quiet | kc-show"))
def ls(
    kind: KindOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only digests, one a line.")] = False,
    json: ReportAsJson = False,
    store: StoreOption = None,
) -> None:
    """List artifacts, newest first."""
    from kerncap_stages.store.folder import default_path, is_still_to_come
    from kerncap_stages.text.terminal import printable

    root = (store or default_path()).expanduser().absolute()
    if is_still_to_come(root):
        if json:
            print("[]")
        else:
            say(
                f"no artifacts yet: {printable(str(root))} holds no store; "
                "a stage makes it, as `kc-profile -- ./app` does"
            )
        return
    opened = open_store(store)
    entries = opened.artifacts(kind)
    if quiet:
        for entry in entries:
            print(entry.digest)
        return
    if not entries and not json:
        say(f"no artifacts{f' of kind {kind}' if kind else ''} in {opened.root}")
        return
    import time

    from kerncap_stages.pages.artifact import listing

    show(entries, [listing(entries, opened, time.time())], json=json)


@app.command(epilog=epilog("kc-store du @capture"))
def du(
    artifacts: ArtifactArguments = None,
    json: ReportAsJson = False,
    store: StoreOption = None,
) -> None:
    """Show the room that artifacts take and share.

    Without any, and without a pipe, all listed ones and the whole store.
    """
    from kerncap_stages.pages.store import usage_page
    from kerncap_stages.store.usage import usage_of, usage_of_each

    opened = open_store(store)
    entries = {entry.digest: entry.kind for entry in opened.artifacts()}
    asked = artifacts or has_piped_input()
    digests = [opened.resolve(text) for text in artifact_texts(artifacts)] if asked else list(entries)
    rows = [
        (digest, entries.get(digest, "unlisted"), usage)
        for digest, usage in zip(digests, usage_of_each(opened, digests), strict=True)
    ]
    total = usage_of(opened)
    report = {"artifacts": [{"digest": d, "kind": kind, "usage": u} for d, kind, u in rows], "store": total}
    show(report, usage_page(rows, total), json=json)


@app.command(epilog=epilog("kc-store name before-tuning @capture"))
def name(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Letters, digits, `.`, `_` and `-`.")],
    artifact: OneArtifactArgument,
    store: StoreOption = None,
) -> None:
    """Give an artifact a name, by which it is kept and found."""
    opened = open_store(store)
    opened.name(name, opened.resolve(artifact))


@app.command(epilog=epilog("kc-store unname before-tuning"))
def unname(
    name: Annotated[str, typer.Argument(metavar="NAME")],
    store: StoreOption = None,
) -> None:
    """Take a name away.

    The artifact stays on the list.
    """
    open_store(store).unname(name)


@app.command(epilog=epilog("kc-store rm @capture\nkc-store ls --kind replay --quiet | kc-store rm"))
def rm(artifacts: ArtifactArguments = None, store: StoreOption = None) -> None:
    """Take artifacts and their names off the list.

    `kc-store gc` then frees what nothing else needs.
    """
    opened = open_store(store)
    # All are looked up first: one wrong name removes nothing, and `@` means what it meant at the start.
    for digest in dict.fromkeys(opened.resolve(text) for text in artifact_texts(artifacts)):
        opened.remove(digest)
        say(f"removed {digest.short}")


@app.command(epilog=epilog("kc-store prune --keep-last 5 --kind replay"))
def prune(
    keep_last: Annotated[int, typer.Option(min=0, metavar="N", help="How many of each kind stay.")],
    kind: KindOption = None,
    store: StoreOption = None,
) -> None:
    """Take all but the latest of each kind off the list.

    Those with a name stay. Prints the digests of those that do not.
    """
    from kerncap_stages.text.formats import count

    gone = open_store(store).prune(keep_last, kind)
    for digest in gone:
        print(digest)
    what = f"{count(len(gone), 'artifact')} taken off the list"
    say(with_typed_store(f"{what}; `kc-store gc` frees their room"))
