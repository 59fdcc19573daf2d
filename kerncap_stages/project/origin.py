"""Says of which project a variant is, and from which files make built it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kerncap_stages.errors import ArtifactError
from kerncap_stages.manifests import open_view
from kerncap_stages.project.built import read_built

if TYPE_CHECKING:
    from pathlib import Path

    from kerncap_stages.digest import Digest
    from kerncap_stages.project.folder import Project
    from kerncap_stages.store import Store


@dataclass(frozen=True)
class Origin:
    """Where a variant is from.

    reproducer: the artifact of the project; None if the store does not hold it.
    built_from: the files that make read, each with its SHA-256; None if make in this project did not build
    the variant.
    """

    reproducer: Digest | None
    built_from: tuple[tuple[str, str], ...] | None


NO_ORIGIN = Origin(None, None)


def find_origin(
    store: Store, project: Project, capture: Digest, variant: Path | None, code: bytes | None
) -> Origin:
    """Find the origin of a variant, whose file held ``code``, in a project that has the capture."""
    return Origin(_find_reproducer(store, project, capture), _find_built_from(project.folder, variant, code))


def _find_reproducer(store: Store, project: Project, capture: Digest) -> Digest | None:
    try:
        with open_view(store, project.reproducer) as made:
            captures = [str(kernel.capture) for kernel in made.kernels]
    except ArtifactError:
        return None
    return project.reproducer if any(each.endswith(capture) for each in captures) else None


def _find_built_from(
    folder: Path, variant: Path | None, code: bytes | None
) -> tuple[tuple[str, str], ...] | None:
    if variant is None or code is None or variant.parent.resolve() != folder.resolve():
        return None
    built = read_built(folder)
    if built.code.get(variant.name) != hashlib.sha256(code).hexdigest():
        return None
    return tuple(sorted(built.sources.items()))
