"""Resolve an argument of a stage: an artifact in the store, or a project's folder with its own store."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.cli.progress import progress
from kerncap_stages.cli.store_option import name_project_store
from kerncap_stages.code.file_format import FileFormat, find_format, is_for_amd
from kerncap_stages.errors import ArtifactNotFound, KerncapError, UsageError
from kerncap_stages.project.artifacts import find_capture_of, find_project
from kerncap_stages.project.folder import is_project
from kerncap_stages.store import Store
from kerncap_stages.store.copying import copy_closure, list_in_other_store
from kerncap_stages.text.formats import list_first
from kerncap_stages.text.terminal import make_printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kerncap_stages.digest import Digest
    from kerncap_stages.project.cases import Case
    from kerncap_stages.project.folder import Project

_MAX_SHOWN = 5  # projects in a folder


def find_capture(store_folder: Path | None, text: str) -> tuple[Store, Digest]:
    """Find the capture that an argument names, and its store.

    The argument may name a capture, an artifact made from a capture, or a project's folder.
    Raises ArtifactNotFound if there is no such capture.
    """
    store, captures = find_captures(store_folder, text)
    return store, captures[0]


def find_captures(store_folder: Path | None, text: str) -> tuple[Store, tuple[Digest, ...]]:
    """Like ``find_capture``, but return every capture of a project.

    If the project's own store is read-only, copy the project's artifacts to the user's store and return that.
    """
    project = find_project(text)
    name_project_store(None if project is None else project.store)
    if project is not None:
        own = Store.open(project.store, create=False)
        if not own.folder.is_writable():
            own = _copy_to_user(own, project, store_folder)
        return own, project.captures
    try:
        store = Store.open(store_folder, create=False)
        digest = store.resolve(text)
    except ArtifactNotFound as error:
        if (explained := explain_path(text)) is not None:
            raise explained from error
        raise
    return store, (find_capture_of(store, digest),)


def explain_path(text: str) -> ArtifactNotFound | None:
    """Explain that a path is neither a project nor an artifact; None if there is nothing there."""
    path = Path(text)
    try:
        is_folder, is_file = path.is_dir(), path.is_file()
    except (OSError, ValueError):
        return None
    name = make_printable(text)
    if is_folder:
        return ArtifactNotFound(
            f"{name} is a folder, but not a project of kc-generate", hint=_suggest_project(path)
        )
    if not is_file:
        return None
    project = next((str(each) for each in path.parents if is_project(each)), None)
    if is_code_object(path):
        place = project or "PROJECT"
        return ArtifactNotFound(
            f"{name} is a code object; a project or a capture is needed",
            hint=f"name the project or the capture, and then the code object: {make_printable(place)} "
            f"--variant {name}",
        )
    what = "a program" if os.access(path, os.X_OK) else "a file"
    if project is not None:
        return ArtifactNotFound(
            f"{name} is {what} in a project; the project's folder is needed",
            hint=f"name the folder: {make_printable(project)}",
        )
    step = "`kc-store ls` lists captures, and `kc-generate` makes projects"
    if os.access(path, os.X_OK):
        step = f"`kc-capture --kernel NAME -- {name}` captures a kernel of it"
    return ArtifactNotFound(f"{name} is {what}; a project or a capture is needed", hint=step)


def is_code_object(path: Path) -> bool:
    """Whether a file holds code for GPUs alone. A program may hold some, too, but is one that can be run."""
    try:
        with path.open("rb") as file:
            head = file.read(1 << 12)
    except OSError:
        return False
    found = find_format(head)
    return is_for_amd(head) if found is FileFormat.ELF else found is not FileFormat.UNKNOWN


def _suggest_project(folder: Path) -> str:
    try:
        inside = sorted(each for each in folder.iterdir() if each.is_dir() and is_project(each))
    except OSError:
        inside = []
    if inside:
        shown = list_first([make_printable(str(each)) for each in inside], _MAX_SHOWN)
        return f"name a project in it: {shown}"
    return "`kc-generate CAPTURE --output FOLDER` makes a project; `kc-store ls` lists captures"


def find_held_out(
    store_folder: Path | None, texts: Sequence[str], captures: Sequence[Digest]
) -> list[tuple[Store, Digest]]:
    """Find the captures of --held-out, each with its store.

    Raises UsageError for one that is among ``captures`` already, or that is given twice: it counts once.
    """
    found = [find_held_out_capture(store_folder, text) for text in texts]
    known = [*captures]
    for text, (_, digest) in zip(texts, found, strict=True):
        if digest in known:
            where = "the project holds" if digest in captures else "is given twice"
            raise UsageError(
                f"--held-out {make_printable(text)}: capture {digest.short}, which {where}",
                hint="name captures that whoever edits the project has not seen, each once",
            )
        known.append(digest)
    return found


def require_kernels_of(cases: Sequence[Case]) -> None:
    """Raise UsageError for a held-out case of a kernel that the project does not have."""
    names = [case.kernel for case in cases if not case.held_out]
    for case in cases:
        if case.held_out and case.kernel not in names:
            raise UsageError(
                f"--held-out: a capture of {make_printable(case.kernel)}, which is not in the project",
                hint="give captures of the project's kernel: `kc-capture --cases` makes them",
            )


def find_held_out_capture(store_folder: Path | None, text: str) -> tuple[Store, Digest]:
    """Find a capture of --held-out. Raises ArtifactNotFound, which names the option, if there is none."""
    try:
        return find_capture(store_folder, text)
    except ArtifactNotFound as error:
        raise ArtifactNotFound(f"--held-out {make_printable(text)}: {error}", hint=error.hint) from error


def _copy_to_user(own: Store, project: Project, store_folder: Path | None) -> Store:
    """Copy a read-only project's artifacts to the user's store, and return that store.

    Returns the project's own store if the copy fails: results of earlier runs can still be read from it.
    """
    try:
        users = Store.open(store_folder)
        if users.root.samefile(own.root) or not users.folder.is_writable():
            return own
        if not (users.root / "artifacts" / project.reproducer).exists():
            with progress("copying to your store", counts_bytes=True) as report:
                copy_closure(own, [project.reproducer], users, report)
    except (KerncapError, OSError):
        return own
    return users


def list_for_user(store: Store, digest: Digest, store_folder: Path | None) -> str | None:
    """List a new artifact of a project's store in the user's store too: the next stage looks there.

    store_folder: the value of ``--store``. Nothing is done if ``store`` is the user's store.
    Returns a note for the user if the artifact could not be listed there, else None.
    """
    try:
        users = Store.open(store_folder)
        if not users.root.samefile(store.root):
            with progress("copying to your store", counts_bytes=True) as report:
                list_in_other_store(store, digest, users, report)
    except (KerncapError, OSError) as error:
        return (
            f"{digest.short} is only in the project's store, where `kc-show --store {store.root}` finds it: "
            f"{error}"
        )
    return None
