"""What kc-store's commands do that check the store, list it and free space."""

from __future__ import annotations

import dataclasses
import json
import math
import time
from typing import TYPE_CHECKING, Any

from kerncap_stages.cli.console import open_page, require_output
from kerncap_stages.cli.inputs import has_piped_input, read_artifact_texts
from kerncap_stages.cli.progress import progress
from kerncap_stages.errors import ArtifactError, UsageError
from kerncap_stages.pages.artifact import make_listing
from kerncap_stages.pages.store import make_check_page, make_gc_page, make_usage_page
from kerncap_stages.store import Store
from kerncap_stages.store.check import check_store
from kerncap_stages.store.collect import collect_garbage
from kerncap_stages.store.usage import measure_usage, measure_usage_of_each
from kerncap_stages.text.formats import count

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kerncap_stages.store import ArtifactEntry
    from kerncap_stages.store.check import CheckReport


def check_all(store_folder: Path | None, *, percent: float | None, repair: bool, as_json: bool) -> None:
    """Read objects again and print the faults.

    Raises ArtifactError if there are faults, UsageError if ``percent`` is not a number.
    """
    if percent is not None and math.isnan(percent):
        raise UsageError(
            "--sample takes a number from 0 to 100, not nan", hint="`--sample 5` reads one object in twenty"
        )
    store = Store.open(store_folder, create=False)
    share = None if percent is None else percent / 100
    with progress("checking", counts_bytes=True) as report_progress:
        report = check_store(store, sample=share, repair=repair, progress=report_progress)
    _show(report, make_check_page(report), as_json=as_json)
    if not report.ok:
        found = f"{count(len(report.faults), 'fault')} in {store.root}"
        raise ArtifactError(found, hint=_suggest_repair(report, repair=repair))


def _suggest_repair(report: CheckReport, *, repair: bool) -> str:
    kinds = {fault.kind for fault in report.faults}
    if kinds == {"stray"}:
        return "move these files elsewhere: nothing in the store reads them"
    if "damaged" in kinds and not repair:
        return (
            "`kc-store check --repair` sets damaged objects aside; then make or import those artifacts again"
        )
    return "make or import the affected artifacts again, or remove them with `kc-store rm`"


def collect(store_folder: Path | None, *, dry_run: bool, as_json: bool) -> None:
    """Remove the objects that nothing needs, and print how much that freed."""
    store = Store.open(store_folder, create=False)
    with progress("collecting", counts_bytes=True) as report_progress:
        report = collect_garbage(store, dry_run=dry_run, progress=report_progress)
    _show(report, [make_gc_page(report)], as_json=as_json)


def show_artifacts(store: Store, entries: Sequence[ArtifactEntry], *, as_json: bool) -> None:
    """Print a table of artifacts."""
    _show(entries, [make_listing(entries, store, time.time())], as_json=as_json)


def show_usage(store_folder: Path | None, artifacts: Sequence[str] | None, *, as_json: bool) -> None:
    """Print how much space artifacts take; if none are given, all listed ones."""
    store = Store.open(store_folder, create=False)
    entries = {entry.digest: entry.kind for entry in store.list_artifacts()}
    asked = artifacts or has_piped_input()
    digests = [store.resolve(text) for text in read_artifact_texts(artifacts)] if asked else list(entries)
    rows = [
        (digest, entries.get(digest, "unlisted"), usage)
        for digest, usage in zip(digests, measure_usage_of_each(store, digests), strict=True)
    ]
    total = measure_usage(store)
    report = {"artifacts": [{"digest": d, "kind": kind, "usage": u} for d, kind, u in rows], "store": total}
    _show(report, make_usage_page(rows, total), as_json=as_json)


def _show(report: Any, sections: Any, *, as_json: bool) -> None:
    """Print a report as the sections of a page, or as JSON."""
    require_output()
    if as_json:
        print(json.dumps(report, indent=1, default=dataclasses.asdict))
        return
    console = open_page()
    for section in sections:
        console.print(section)
