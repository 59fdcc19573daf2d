"""Opens the folder of a project, and tells which of its files were edited."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kerncap_stages.digest import Digest
from kerncap_stages.errors import ArtifactError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

CAPTURE = "capture"
RECORD = f"{CAPTURE}/project.json"
STORE = f"{CAPTURE}/store"
RECORD_VERSION = 1


@dataclass(frozen=True)
class Project:
    """An opened project: its own store and the artifact it was made from."""

    folder: Path
    store: Path
    reproducer: Digest
    captures: tuple[Digest, ...]


def count_captures(folder: Path) -> int:
    """Count the captures of the project in a folder; 0 if there is none."""
    return len(read_record(folder).get("captures", ()))


def is_project(folder: Path) -> bool:
    """Whether kc-generate made a folder."""
    return (folder / RECORD).is_file()


def find_project_folder(folder: Path) -> Path:
    """Return the folder above for the ``capture`` folder of a project, and any other folder as it is."""
    above = folder.resolve().parent
    is_capture = not is_project(folder) and is_project(above) and folder.resolve() == above / CAPTURE
    return above if is_capture else folder


def find_edited_files(folder: Path) -> list[str]:
    """Return the files of a project that were edited or removed since they were written."""
    written = read_record(folder).get("files", {})
    return [path for path, digest in sorted(written.items()) if hash_file(folder / path) != digest]


def list_written_files(folder: Path) -> tuple[str, ...]:
    """Return the files that were written into a project, by their paths below it; empty if it is none."""
    written = read_record(folder).get("files", {})
    return tuple(
        path for path in written if path and not path.startswith("/") and ".." not in path.split("/")
    )


def open_project(folder: Path) -> Project:
    """Read a project's record.

    Raises ArtifactError if the folder is not a project or its record is damaged.
    """
    record = read_record(folder)
    try:
        return Project(
            folder=folder,
            store=(folder / STORE).absolute(),  # Store.open takes a name that begins with ~ for a home
            reproducer=Digest(record["reproducer"]),
            captures=tuple(Digest(capture) for capture in record["captures"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ArtifactError(
            f"{folder} is not a generated project: {RECORD} is missing or damaged",
            hint="give the folder that kc-generate printed, or run it again",
        ) from error


def read_record(folder: Path) -> Mapping[str, Any]:
    """Return what is known of the project in a folder; empty if there is none, or its record is damaged."""
    try:
        record = json.loads((folder / RECORD).read_text())
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) and record.get("schema_version") == RECORD_VERSION else {}


def hash_file(path: Path) -> str | None:
    """Return the SHA-256 of a file's bytes; None if there is no such file, or it cannot be read."""
    try:
        if not path.is_file():  # reading a pipe would block
            return None
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None
