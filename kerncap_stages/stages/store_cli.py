"""kc-store: keep the store whole, small and in order; put files in and take them out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kerncap_stages.console import epilog, page, run, say
from kerncap_stages.inputs import artifact_texts, has_piped_input
from kerncap_stages.options import (
    ArtifactArguments,
    OneArtifactArgument,
    StoreOption,
    VersionOption,
    stage_app,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kerncap_stages.digest import Digest
    from kerncap_stages.store import Store

app = stage_app("Keep the store whole, small and in order; put files in and take them out.")

KindOption = Annotated[
    str | None,
    typer.Option("--kind", metavar="KIND", help="Only artifacts of this kind.", show_default=False),
]
ReportAsJson = Annotated[bool, typer.Option("--json", help="Print plain JSON instead of a page.")]


@app.callback(epilog=epilog("kc-store check\nkc-store ls --kind capture\nkc-store prune --keep-last 5"))
def kc_store(version: VersionOption = False) -> None:
    """Keep the store whole, small and in order; put files in and take them out."""


@app.command(epilog=epilog("kc-store check\nkc-store check --sample 5\nkc-store check --repair"))
def check(
    sample: Annotated[
        float | None,
        typer.Option(
            min=0.0, max=100.0, metavar="PERCENT", help="Read only a random part.", show_default=False
        ),
    ] = None,
    repair: Annotated[
        bool,
        typer.Option("--repair", help="Set damaged objects aside, so that making them again mends them."),
    ] = False,
    json: ReportAsJson = False,
    store: StoreOption = None,
) -> None:
    """Read every object again and follow every reference.

    Ends with 3 when something is wrong.
    """
    from kerncap_stages.errors import ArtifactError
    from kerncap_stages.pages.formats import count
    from kerncap_stages.pages.store import check_page
    from kerncap_stages.progress import progress

    opened = _open(store)
    share = None if sample is None else sample / 100
    with progress("checking", counts_bytes=True) as report_progress:
        report = opened.check(sample=share, repair=repair, progress=report_progress)
    _show(report, check_page(report), json=json)
    if not report.ok:
        damaged = any(fault.kind == "damaged" for fault in report.faults)
        raise ArtifactError(
            f"{count(len(report.faults), 'fault')} in {opened.root}",
            hint="`kc-store check --repair` sets damaged objects aside; then make or import those "
            "artifacts again"
            if damaged and not repair
            else "make or import the artifacts that they spoil again, or `kc-store rm` them",
        )


@app.command(epilog=epilog("kc-store gc --dry-run"))
def gc(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what would be removed.")] = False,
    json: ReportAsJson = False,
    store: StoreOption = None,
) -> None:
    """Remove objects that no artifact and no name needs."""
    from kerncap_stages.pages.store import gc_page
    from kerncap_stages.progress import progress

    with progress("collecting", counts_bytes=True) as report_progress:
        report = _open(store).collect_garbage(dry_run=dry_run, progress=report_progress)
    _show(report, [gc_page(report)], json=json)


@app.command(epilog=epilog("kc-store ls\nkc-store ls --kind capture --quiet | kc-show"))
def ls(
    kind: KindOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only digests, one a line.")] = False,
    json: ReportAsJson = False,
    store: StoreOption = None,
) -> None:
    """List artifacts, newest first."""
    opened = _open(store)
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

    _show(entries, [listing(entries, opened, time.time())], json=json)


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

    opened = _open(store)
    entries = {entry.digest: entry.kind for entry in opened.artifacts()}
    asked = artifacts or has_piped_input()
    digests = [opened.resolve(text) for text in artifact_texts(artifacts)] if asked else list(entries)
    rows = [
        (digest, entries.get(digest, "unlisted"), usage)
        for digest, usage in zip(digests, opened.usages(digests), strict=True)
    ]
    total = opened.usage()
    report = {"artifacts": [{"digest": d, "kind": kind, "usage": u} for d, kind, u in rows], "store": total}
    _show(report, usage_page(rows, total), json=json)


@app.command(epilog=epilog("kc-store name before-tuning @capture"))
def name(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Letters, digits, `.`, `_` and `-`.")],
    artifact: OneArtifactArgument,
    store: StoreOption = None,
) -> None:
    """Give an artifact a name, by which it is kept and found."""
    opened = _open(store)
    opened.name(name, opened.resolve(artifact))


@app.command(epilog=epilog("kc-store unname before-tuning"))
def unname(
    name: Annotated[str, typer.Argument(metavar="NAME")],
    store: StoreOption = None,
) -> None:
    """Take a name away.

    The artifact stays on the list.
    """
    _open(store).unname(name)


@app.command(epilog=epilog("kc-store rm @capture\nkc-store ls --kind replay --quiet | kc-store rm"))
def rm(artifacts: ArtifactArguments = None, store: StoreOption = None) -> None:
    """Take artifacts and their names off the list.

    `kc-store gc` then frees what nothing else needs.
    """
    opened = _open(store)
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
    from kerncap_stages.pages.formats import count

    gone = _open(store).prune(keep_last, kind)
    for digest in gone:
        print(digest)
    say(f"{count(len(gone), 'artifact')} taken off the list; `kc-store gc` frees their room")


@app.command("export", epilog=epilog("kc-store export @capture --output capture.kcar"))
def export_(
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The archive to write.")],
    artifacts: ArtifactArguments = None,
    store: StoreOption = None,
) -> None:
    """Write artifacts with all that they need as one file."""
    from kerncap_stages.errors import UsageError
    from kerncap_stages.progress import progress

    if output.exists():
        raise UsageError(f"{output} exists", hint="give a new name: nothing is ever overwritten")
    opened = _open(store)
    digests = [opened.resolve(text) for text in artifact_texts(artifacts)]
    with progress("exporting", counts_bytes=True) as report_progress:
        opened.export(digests, output, report_progress)


@app.command("import", epilog=epilog("kc-store import capture.kcar | kc-show"))
def import_(
    archives: Annotated[list[Path], typer.Argument(metavar="FILE", help="What `export` wrote.")],
    store: StoreOption = None,
) -> None:
    """Add the artifacts of archives, verified.

    Prints their digests.
    """
    from kerncap_stages.progress import progress

    opened = _open(store, create=True)
    for archive in archives:
        with progress("importing", counts_bytes=True) as report_progress:
            digests = opened.import_(archive, report_progress)
        _print(digests)


@app.command(epilog=epilog("kc-store put model.bin results/"))
def put(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH", help="Files or folders.")],
    store: StoreOption = None,
) -> None:
    """Put files or folders into the store.

    Prints one digest for each.
    """
    from kerncap_stages.files import put_path

    opened = _open(store, create=True)
    for path in paths:
        _print([put_path(opened, path)[0]])


@app.command(epilog=epilog("kc-store get @files copy/"))
def get(
    artifact: OneArtifactArgument,
    destination: Annotated[
        Path | None, typer.Argument(metavar="PATH", help="Where; else its own name here.", show_default=False)
    ] = None,
    store: StoreOption = None,
) -> None:
    """Take files out of the store again, verified.

    Nothing is ever overwritten.
    """
    from kerncap_stages.files import get_files
    from kerncap_stages.manifests import load_as
    from kerncap_stages.manifests.files import Files

    opened = _open(store)
    manifest = load_as(opened, opened.resolve(artifact), Files)
    get_files(opened, manifest, destination or Path(manifest.name))


@app.command(epilog=epilog("kc-store cat @files model.bin | xxd\nkc-store cat memory:DIGEST > region.bin"))
def cat(
    what: Annotated[str, typer.Argument(metavar="ARTIFACT|REFERENCE", help="Or `file:…`, `memory:…`.")],
    path: Annotated[
        str | None, typer.Argument(metavar="PATH", help="A file in it.", show_default=False)
    ] = None,
    store: StoreOption = None,
) -> None:
    """Write an object to standard output, verified.

    A manifest, a file or a memory; what is damaged is not written.
    """
    from kerncap_stages.contents import find_content, print_content

    opened = _open(store)
    content = find_content(opened, what, path)
    sys.stdout.flush()
    print_content(opened, content, sys.stdout.fileno())


def _open(store: Path | None, *, create: bool = False) -> Store:
    from kerncap_stages.store import Store

    return Store.open(store, create=create)


def _print(digests: Sequence[Digest]) -> None:
    for digest in digests:
        print(digest, flush=True)


def _show(report: Any, sections: Any, *, json: bool) -> None:
    if json:
        import dataclasses
        import json as json_module

        print(json_module.dumps(report, indent=1, default=dataclasses.asdict))
        return
    console = page()
    for section in sections:
        console.print(section)


def main() -> None:
    """Run the executable."""
    run(app)
