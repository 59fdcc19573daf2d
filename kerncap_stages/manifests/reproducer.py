"""The reproducer manifest: a project that rebuilds and replays captured kernels."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from kerncap_stages.digest import FileRef, ManifestRef
from kerncap_stages.manifests.base import (
    Frozen,
    Manifest,
    RelativePath,
    Remark,
    SizeBytes,
    check_paths,
    refuse,
)
from kerncap_stages.manifests.kernel import Language
from kerncap_stages.manifests.source import Unedited


class ProjectFile(Frozen):
    """A generated file; its path never leads out of the project's folder."""

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
        default=None, description="comparison for the file that the user edits, if it can be rebuilt"
    )


class Reproducer(Manifest):
    """The files of a project, which can be written into any folder."""

    kind: Literal["reproducer"] = "reproducer"
    schema_version: Literal[2] = 2
    language: Language
    kernels: tuple[ReproducedKernel, ...] = Field(min_length=1)
    files: tuple[ProjectFile, ...] = Field(min_length=1)
    can_recompile: bool
    missing: tuple[Remark, ...] = Field(default=(), description="for people: what the project lacks, and why")

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        paths = [file.path for file in self.files]
        refuse(paths != sorted(paths), "files are not in order of path")
        check_paths(paths)
        return self
