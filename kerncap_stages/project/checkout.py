"""Writing a project into a folder without ever losing what the user changed there."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kerncap_stages.digest import Digest, FileRef, ManifestRef
from kerncap_stages.errors import ArtifactError, UsageError
from kerncap_stages.machine.user_folder import remove_file, require_no_links, write_file
from kerncap_stages.project.variants import set_aside
from kerncap_stages.store import Store
from kerncap_stages.store.copying import copy_closure

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from kerncap_stages.manifests import View
    from kerncap_stages.manifests.reproducer import ProjectFile, Reproducer

CAPTURE = "capture"
RECORD = f"{CAPTURE}/project.json"
STORE = f"{CAPTURE}/store"
_RECORD_VERSION = 1


@dataclass(frozen=True)
class Checkout:
    """``kept``: files that the user had changed and that were left alone.

    ``set_aside``: code objects that were built for another kernel, which are called NAME.old now.
    """

    folder: Path
    kept: tuple[str, ...]
    set_aside: tuple[str, ...] = ()

    def notes(self) -> list[str]:
        """What people should know of both."""
        return [
            *(f"{name} was built for another kernel: it is {name}.old now" for name in self.set_aside),
            *(f"kept your edit of {name} (--force overwrites it)" for name in self.kept),
        ]


@dataclass(frozen=True)
class Project:
    """An opened project: its own store and the artifact it was made from."""

    folder: Path
    store: Path
    reproducer: Digest
    captures: tuple[Digest, ...]


def check_out(store: Store, digest: Digest, reproducer: Reproducer, folder: Path, *, force: bool) -> Checkout:
    """Write the project's files and a store of its own into ``folder``.

    A file that was edited since it was last written is kept unless ``force``.
    Raises UsageError if the folder exists and is not a project of ours, or holds edits of another kernel;
    Refused if a folder in it that would be written to is a link.
    """
    with _alone_in(folder):
        if any(folder.iterdir()) and not is_project(folder):
            raise UsageError(
                f"{folder} exists and is not a generated project", hint="give an empty or a new folder"
            )
        before = _record(folder)
        record = _record_of(digest, reproducer)
        lacking, kept = _compare(reproducer, folder, before, force=force)
        _require_same_subject(folder, before, record, kept)
        written = before.get("files", {})
        stale = [path for path in written if path not in record["files"]]
        stale = [path for path in stale if _digest(folder / path) == written[path]]
        require_no_links(folder, [*(file.path for file in lacking), *stale, RECORD])
        if not before:
            # What a kill leaves half written is a project that lacks files, not somebody else's folder.
            _write_record(folder, record)
        for file in lacking:
            write_file(folder, file.path, store.get(file.payload.digest), executable=file.executable)
        is_another = before.get("kernels", record["kernels"]) != record["kernels"]
        aside = set_aside(folder) if is_another else ()
        for path in stale:
            remove_file(folder, path)
        if not (folder / STORE / "artifacts" / digest).exists():
            copy_closure(store, [digest], Store.open(folder / STORE))
        if before != record:
            _write_record(folder, record)
    return Checkout(folder, kept, aside)


@contextlib.contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Make the folder, and keep others of us out of it for a while."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise UsageError(
            f"cannot make the folder {folder}: {error.strerror}", hint="give another folder"
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
    """Refuse to build another kernel around edits of a file that is not that kernel's."""
    foreign = [path for path in kept if before["files"].get(path) != record["files"].get(path)]
    if foreign and before.get("kernels", record["kernels"]) != record["kernels"]:
        raise UsageError(
            f"{folder} holds edits of {before['kernels'][0]}: {', '.join(foreign)}",
            hint="give another folder, or --force to overwrite them",
        )


def checked_out(
    digest: Digest, reproducer: Reproducer | View, folder: Path, *, force: bool
) -> Checkout | None:
    """What ``check_out`` would return if it has nothing to write; else None. Nothing is written here."""
    before = _record(folder)
    lacking, kept = _compare(reproducer, folder, before, force=force)
    if lacking or before != _record_of(digest, reproducer):
        return None
    return Checkout(folder, kept) if (folder / STORE / "artifacts" / digest).exists() else None


def _compare(
    reproducer: Reproducer | View, folder: Path, before: Mapping[str, Any], *, force: bool
) -> tuple[list[ProjectFile], tuple[str, ...]]:
    """The files that must be written, and those that the user has edited and that stay."""
    lacking, kept = [], []
    for file in reproducer.files:
        current = _digest(folder / file.path)
        if current == FileRef(file.payload).digest:
            continue
        edited = current is not None and current != before.get("files", {}).get(file.path)
        if edited and not force:
            kept.append(file.path)
        else:
            lacking.append(file)
    return lacking, tuple(kept)


def _record_of(digest: Digest, reproducer: Reproducer | View) -> dict[str, Any]:
    return {
        "schema_version": _RECORD_VERSION,
        "reproducer": str(digest),
        "kernels": [kernel.name for kernel in reproducer.kernels],
        "captures": [str(ManifestRef(kernel.capture).digest) for kernel in reproducer.kernels],
        "files": {file.path: str(FileRef(file.payload).digest) for file in reproducer.files},
    }


def is_project(folder: Path) -> bool:
    """Whether a folder was made by ``check_out``."""
    return (folder / RECORD).is_file()


def project_folder(folder: Path) -> Path:
    """The folder of the project that is meant: the one above for a project's ``capture``, else itself."""
    above = folder.resolve().parent
    is_capture = not is_project(folder) and is_project(above) and folder.resolve() == above / CAPTURE
    return above if is_capture else folder


def edited_files(folder: Path) -> list[str]:
    """Files of a project that are not as they were written."""
    written = _record(folder).get("files", {})
    return [path for path, digest in sorted(written.items()) if _digest(folder / path) != digest]


def open_project(folder: Path) -> Project:
    """Read a project's record.

    Raises ArtifactError if the folder is no project or its record is damaged.
    """
    record = _record(folder)
    try:
        return Project(
            folder=folder,
            store=folder / STORE,
            reproducer=Digest(record["reproducer"]),
            captures=tuple(Digest(capture) for capture in record["captures"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ArtifactError(
            f"{folder} is not a generated project: {RECORD} is missing or damaged",
            hint="give the folder that kc-generate printed, or run it again",
        ) from error


def _record(folder: Path) -> Mapping[str, Any]:
    try:
        record = json.loads((folder / RECORD).read_text())
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) and record.get("schema_version") == _RECORD_VERSION else {}


def _digest(path: Path) -> str | None:
    try:
        if not path.is_file():  # a pipe would be waited for
            return None
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None
