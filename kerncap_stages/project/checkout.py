"""Writing a project into a folder without ever losing what the user changed there."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kerncap_stages.digest import Digest
from kerncap_stages.errors import ArtifactError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from kerncap_stages.manifests.reproducer import Reproducer
    from kerncap_stages.store import Store

RECORD = "capture/project.json"
STORE = "capture/store"
_RECORD_VERSION = 1


@dataclass(frozen=True)
class Checkout:
    """``kept``: files that the user had changed and that were left alone."""

    folder: Path
    kept: tuple[str, ...]


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
    Raises UsageError if the folder exists and is not a project of ours.
    """
    if folder.exists() and any(folder.iterdir()) and not (folder / RECORD).is_file():
        raise UsageError(
            f"{folder} exists and is not a generated project", hint="give an empty or a new folder"
        )
    before = _record(folder).get("files", {})
    kept: list[str] = []
    written: dict[str, str] = {}
    for file in reproducer.files:
        path = folder / file.path
        wanted = str(file.payload.digest)
        current = _digest(path)
        written[file.path] = wanted
        if current == wanted:
            continue
        if current is not None and current != before.get(file.path) and not force:
            kept.append(file.path)
            continue
        _write(path, store.get(file.payload.digest), executable=file.executable)
    for stale in sorted(set(before) - set(written)):
        if _digest(folder / stale) == before[stale]:
            (folder / stale).unlink()
    if not (folder / STORE / "artifacts" / digest).exists():
        store.copy_closure([digest], folder / STORE)
    record = {
        "schema_version": _RECORD_VERSION,
        "reproducer": str(digest),
        "captures": [str(kernel.capture.digest) for kernel in reproducer.kernels],
        "files": written,
    }
    _write(folder / RECORD, (json.dumps(record, indent=1, sort_keys=True) + "\n").encode())
    return Checkout(folder, tuple(kept))


def is_project(folder: Path) -> bool:
    """Whether a folder was made by ``check_out``."""
    return (folder / RECORD).is_file()


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
            hint="run kc-generate again",
        ) from error


def _record(folder: Path) -> Mapping[str, Any]:
    try:
        record = json.loads((folder / RECORD).read_text())
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) and record.get("schema_version") == _RECORD_VERSION else {}


def _digest(path: Path) -> str | None:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None


def _write(path: Path, content: bytes, *, executable: bool = False) -> None:
    """Replace a file whole: a kill in between leaves the old one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(content)
        temporary.chmod(0o755 if executable else 0o644)
        temporary.replace(path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
