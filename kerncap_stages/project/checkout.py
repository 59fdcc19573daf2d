"""Writes a project into a folder without ever losing what the user changed there."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kerncap_stages.digest import Digest, FileRef, ManifestRef
from kerncap_stages.errors import ArtifactError, UsageError
from kerncap_stages.machine.user_folder import remove_file, require_no_links, write_file
from kerncap_stages.project.folder import (
    RECORD,
    RECORD_VERSION,
    STORE,
    hash_file,
    is_project,
    read_record,
)
from kerncap_stages.project.variants import set_aside
from kerncap_stages.store import Store
from kerncap_stages.store.collect import collect_garbage
from kerncap_stages.store.copying import copy_closure
from kerncap_stages.text.formats import count, list_first
from kerncap_stages.text.terminal import make_printable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from kerncap_stages.manifests import View
    from kerncap_stages.manifests.reproducer import ProjectFile, Reproducer

_MAX_LISTED = 5


@dataclass(frozen=True)
class Checkout:
    """A project that was written into a folder.

    ``kept``: files that the user had edited and that were not overwritten.
    ``set_aside``: code objects that were built for another kernel and were renamed to NAME.old.
    ``replaced``: another kernel, whose project was in the folder.
    ``removed``: how many artifacts the folder's store lost: held-out captures, and what was made from them.
    """

    folder: Path
    kept: tuple[str, ...]
    set_aside: tuple[str, ...] = ()
    replaced: str = ""
    removed: int = 0

    @property
    def notes(self) -> list[str]:
        """Messages to the user about what was kept, set aside or removed."""
        removed = f"{count(self.removed, 'artifact')} of held-out captures"
        return [
            *([f"removed {removed} from the project's store"] if self.removed else []),
            *([f"replaced the project of {make_printable(self.replaced)}"] if self.replaced else []),
            *(f"{name} was made for another kernel: renamed to {name}.old" for name in self.set_aside),
            *(f"kept your edit of {name} (--force overwrites it)" for name in self.kept),
        ]


def check_out(
    store: Store,
    digest: Digest,
    reproducer: Reproducer,
    folder: Path,
    *,
    force: bool,
    held_out: Collection[Digest] = (),
) -> Checkout:
    """Write the project's files and a store of its own into ``folder``.

    A file that was edited since it was last written is kept unless ``force`` is set.
    held_out: captures that the folder must not hold; an earlier project there may have had them.
    Raises UsageError if the folder exists and is not a generated project, holds edits of another kernel, or
    holds more captures than the project, or if ``store`` is the one of the folder and has a held-out capture;
    Refused if a folder below it that a file is to be written into is a symbolic link.
    """
    with _lock_folder(folder):
        if any(folder.iterdir()) and not is_project(folder):
            raise UsageError(
                f"{folder} exists and is not a generated project", hint="give an empty or a new folder"
            )
        before = read_record(folder)
        record = _make_record(digest, reproducer)
        if not force:
            _require_all_captures(folder, before, record)
        _require_another_store(store, folder, held_out)
        lacking, kept = _compare(reproducer, folder, before, force=force)
        written = before.get("files", {})
        gone = {path: hash_file(folder / path) for path in written if path not in record["files"]}
        stale = [path for path, found in gone.items() if found == written[path]]
        if not force:
            edited = [path for path, found in gone.items() if found not in (None, written[path])]
            _require_same_subject(folder, before, record, (*kept, *edited))
        require_no_links(folder, [*(file.path for file in lacking), *stale, RECORD])
        if not before:
            # Written first: a checkout that is killed half way must be recognised as a project next time.
            _write_record(folder, record)
        for file in lacking:
            write_file(folder, file.path, store.get(file.payload.digest), executable=file.executable)
        is_another = _has_other_kernels(before, record)
        aside = set_aside(folder) if is_another else ()
        for path in stale:
            remove_file(folder, path)
        if not (folder / STORE / "artifacts" / digest).exists():
            copy_closure(store, [digest], Store.open((folder / STORE).absolute()))
        removed = _remove_held_out(folder, held_out)
        if before != record:
            _write_record(folder, record)
    replaced = ", ".join(before["kernels"][:1]) if is_another else ""
    return Checkout(folder, kept, aside, replaced, removed)


def _list_held_out(folder: Path, held_out: Collection[Digest]) -> list[Digest]:
    """List the held-out captures that the store of a project's folder has."""
    if not held_out or not (folder / STORE).is_dir():
        return []
    own = Store.open((folder / STORE).absolute(), create=False)
    return [each for each in held_out if own.has(each)]


def _require_another_store(store: Store, folder: Path, held_out: Collection[Digest]) -> None:
    """Refuse to remove captures from the store that they are read from."""
    found = _list_held_out(folder, held_out)
    if found and (folder / STORE).samefile(store.root):
        raise UsageError(
            f"{folder} would keep the held-out capture {found[0].short}: it is in the project's own store, "
            "which --store names",
            hint="make the project in another folder with --output",
        )


def _remove_held_out(folder: Path, held_out: Collection[Digest]) -> int:
    """Remove held-out captures, and all artifacts that name them, from the project's store.

    Returns how many artifacts that were.
    """
    found = _list_held_out(folder, held_out)
    if not found:
        return 0
    own = Store.open((folder / STORE).absolute(), create=False)
    removed = own.find_dependents(found)
    for digest in removed:
        own.remove(digest)
    collect_garbage(own)
    if left := _list_held_out(folder, found):
        raise ArtifactError(
            f"{own.root} still holds the held-out capture {left[0].short}: a running stage uses it",
            hint="wait for the stages that use the project to end, then run this again",
        )
    return len(removed)


@contextlib.contextmanager
def _lock_folder(folder: Path) -> Iterator[None]:
    """Make the folder, and lock it against other checkouts for a ``with`` block."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise UsageError(
            f"cannot create the folder {folder}: {error.strerror}", hint="give another folder"
        ) from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _write_record(folder: Path, record: Mapping[str, Any]) -> None:
    write_file(folder, RECORD, (json.dumps(record, indent=1, sort_keys=True) + "\n").encode())


def _require_same_subject(
    folder: Path, before: Mapping[str, Any], record: Mapping[str, Any], kept: Sequence[str]
) -> None:
    """Raise UsageError if the folder holds another kernel and kept edits of that kernel's files."""
    foreign = [path for path in kept if before["files"].get(path) != record["files"].get(path)]
    if foreign and _has_other_kernels(before, record):
        raise UsageError(
            f"{folder} holds edits of {before['kernels'][0]}: {', '.join(foreign)}",
            hint="give another folder, or use --force to overwrite them",
        )


def _has_other_kernels(before: Mapping[str, Any], record: Mapping[str, Any]) -> bool:
    """Whether a folder's project is of other kernels. The cases of one kernel have one name."""
    return set(before.get("kernels", record["kernels"])) != set(record["kernels"])


def _require_all_captures(folder: Path, before: Mapping[str, Any], record: Mapping[str, Any]) -> None:
    """Raise UsageError if the folder's project has captures that a smaller one, which replaces it, lacks."""
    had, has = before.get("captures", ()), record["captures"]
    lost = [capture for capture in had if capture not in has]
    if lost and len(had) > len(has):
        raise UsageError(
            f"{folder} has a project of {_list_captures(had)}, "
            f"and the new one has only {_list_captures(has)}",
            hint="give another folder with --output, or all captures, or overwrite the project with --force",
        )


def _list_captures(captures: Sequence[str]) -> str:
    shown = list_first([Digest(capture).short for capture in captures], _MAX_LISTED)
    return f"{count(len(captures), 'capture')} ({shown})"


def find_checkout(
    digest: Digest,
    reproducer: Reproducer | View,
    folder: Path,
    *,
    force: bool,
    held_out: Collection[Digest] = (),
) -> Checkout | None:
    """Return the result of ``check_out`` if it would write nothing, else None. Writes nothing itself."""
    before = read_record(folder)
    lacking, kept = _compare(reproducer, folder, before, force=force)
    if lacking or before != _make_record(digest, reproducer) or _list_held_out(folder, held_out):
        return None
    return Checkout(folder, kept) if (folder / STORE / "artifacts" / digest).exists() else None


def _compare(
    reproducer: Reproducer | View, folder: Path, before: Mapping[str, Any], *, force: bool
) -> tuple[list[ProjectFile], tuple[str, ...]]:
    """Return the files that must be written, and the paths of those that the user edited and that stay."""
    lacking, kept = [], []
    for file in reproducer.files:
        current = hash_file(folder / file.path)
        if current == FileRef(file.payload).digest:
            continue
        edited = current is not None and current != before.get("files", {}).get(file.path)
        if edited and not force:
            kept.append(file.path)
        else:
            lacking.append(file)
    return lacking, tuple(kept)


def _make_record(digest: Digest, reproducer: Reproducer | View) -> dict[str, Any]:
    return {
        "schema_version": RECORD_VERSION,
        "reproducer": str(digest),
        "kernels": [kernel.name for kernel in reproducer.kernels],
        "captures": [str(ManifestRef(kernel.capture).digest) for kernel in reproducer.kernels],
        "files": {file.path: str(FileRef(file.payload).digest) for file in reproducer.files},
    }
