"""What a client may name: captures of the user's store by digest, and projects that the service was given.

A client never names a folder: make would run what its Makefile says.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from kerncap_stages.digest import Digest
from kerncap_stages.errors import ArtifactNotFound, KerncapError, UsageError
from kerncap_stages.evaluate.candidates import SOURCE_SUFFIXES
from kerncap_stages.evaluate.subject import Subject, open_subject
from kerncap_stages.text.terminal import make_printable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kerncap_stages.serve.posted import Posted
    from kerncap_stages.store import Store
    from kerncap_stages.validate.request import JudgeSettings

_MAX_OPENED = 1000


class Subjects:
    """Finds what variants are to be evaluated for."""

    def __init__(self, store: Store, projects: Mapping[str, Subject], settings: JudgeSettings) -> None:
        """``projects``: by their names."""
        self._store = store
        self._projects = dict(projects)
        self._settings = settings
        self._lock = threading.Lock()
        self._opened: set[str] = set()

    def list_projects(self) -> list[str]:
        """Return the names of the projects."""
        return sorted(self._projects)

    def open_projects(self) -> None:
        """Open all projects, and try the reference on each: an error now, not in the first request.

        Raises UsageError, Refused or ArtifactError, which names the project.
        """
        for project, subject in self._projects.items():
            try:
                self._open(_name_project(project), subject)
            except KerncapError as error:
                text = f"project {make_printable(project)}: {error}"
                raise type(error)(text, hint=error.hint) from error

    def find(self, posted: Posted) -> tuple[str, Subject]:
        """Return a subject with a name of its own.

        Raises ArtifactError if there is no such capture or project, UsageError for sources without a project.
        """
        if posted.project is not None:
            subject = self._projects.get(posted.project)
            if subject is None:
                raise ArtifactNotFound(
                    "no such project",
                    hint="/health lists the projects; the service is started with their folders",
                )
        else:
            assert posted.capture is not None
            capture = Digest(posted.capture)
            if not self._store.has(capture):
                raise ArtifactNotFound(
                    f"there is no capture {capture.short} in the service's store",
                    hint="`kc-store ls --kind capture` on its machine lists them",
                )
            subject = Subject(self._store, (capture,))
            if any(each.suffix in SOURCE_SUFFIXES for each in posted.variants):
                raise UsageError(
                    "a source is built in a project only", hint="name the project instead of the capture"
                )
        if posted.project is not None:
            name = _name_project(posted.project)
        else:
            name = "capture " + " ".join(subject.captures)
        self._open(name, subject)
        return name, subject

    def _open(self, name: str, subject: Subject) -> None:
        """Open a subject once, for an error now and not in each of its tasks."""
        with self._lock:
            if name not in self._opened:
                open_subject(subject, self._settings)
                if len(self._opened) < _MAX_OPENED:
                    self._opened.add(name)


def _name_project(project: str) -> str:
    return f"project {project}"
