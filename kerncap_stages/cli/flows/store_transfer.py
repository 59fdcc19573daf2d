"""What kc-store's commands do that put files into the store and take them out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.cli.console import emit, require_output
from kerncap_stages.cli.inputs import read_artifact_texts
from kerncap_stages.cli.progress import progress
from kerncap_stages.errors import UsageError
from kerncap_stages.manifests import load_as
from kerncap_stages.manifests.files import Files
from kerncap_stages.store import Store
from kerncap_stages.store.archive import export, import_archive
from kerncap_stages.store.contents import find_content, print_content
from kerncap_stages.store.files import get_files, put_path

if TYPE_CHECKING:
    from collections.abc import Sequence


def export_artifacts(store_folder: Path | None, artifacts: Sequence[str] | None, output: Path) -> None:
    """Write artifacts, with everything they refer to, to one file. Raises UsageError if the file exists."""
    if output.exists():
        raise UsageError(f"{output} exists", hint="give a new name: kc-store never overwrites a file")
    store = Store.open(store_folder, create=False)
    digests = [store.resolve(text) for text in read_artifact_texts(artifacts)]
    with progress("exporting", counts_bytes=True) as report_progress:
        export(store, digests, output, report_progress)


def import_archives(store_folder: Path | None, archives: Sequence[Path]) -> None:
    """Add the contents of archives to the store, and print the digests of their artifacts."""
    store = Store.open(store_folder)
    for archive in archives:
        with progress("importing", counts_bytes=True) as report_progress:
            digests = import_archive(store, archive, report_progress)
        for digest in digests:
            emit(digest)


def put_paths(store_folder: Path | None, paths: Sequence[Path]) -> None:
    """Store files and folders, and print one digest for each."""
    store = Store.open(store_folder)
    for path in paths:
        emit(put_path(store, path)[0])


def get_artifact(store_folder: Path | None, artifact: str, destination: Path | None) -> None:
    """Write stored files to ``destination``, else to the artifact's own name in the working folder."""
    store = Store.open(store_folder, create=False)
    manifest = load_as(store, store.resolve(artifact), Files)
    get_files(store, manifest, destination or Path(manifest.name))


def print_object(store_folder: Path | None, what: str, path: str | None) -> None:
    """Write an object's bytes to standard output. Raises UsageError if standard output is closed."""
    require_output()
    store = Store.open(store_folder, create=False)
    content = find_content(store, what, path)
    sys.stdout.flush()
    print_content(store, content, sys.stdout.fileno())
