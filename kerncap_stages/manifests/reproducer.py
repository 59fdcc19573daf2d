"""The reproducer manifest: a project that rebuilds and replays captured kernels."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from kerncap_stages.digest import FileRef, ManifestRef
from kerncap_stages.manifests.base import Frozen, Manifest, RelativePath, SizeBytes, check_paths, refuse
from kerncap_stages.manifests.kernel import Language
from kerncap_stages.manifests.source import Unedited


class ProjectFile(Frozen):
    """One generated file; its path never leaves the project's folder."""

    path: RelativePath
    payload: FileRef
    size_bytes: SizeBytes
    executable: bool = False
    editable: bool = Field(default=False, description="meant to be changed by the user")


class ReproducedKernel(Frozen):
    """A kernel that the project replays."""

    name: str
    capture: ManifestRef
    source: ManifestRef | None
    unedited: Unedited | None = Field(
        default=None, description="of what is edited, where that can be rebuilt"
    )


class Reproducer(Manifest):
    """A relocatable project, as its files."""

    kind: Literal["reproducer"] = "reproducer"
    schema_version: Literal[2] = 2
    language: Language
    kernels: tuple[ReproducedKernel, ...] = Field(min_length=1)
    files: tuple[ProjectFile, ...] = Field(min_length=1)
    can_recompile: bool
    missing: tuple[str, ...] = Field(default=(), description="for people: what could not be had, and why")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        paths = [file.path for file in self.files]
        refuse(paths != sorted(paths), "files are not in order of path")
        check_paths(paths)
        return self
