"""The files manifest: a file or a folder that a user put into the store."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from kerncap_stages.digest import FileRef, MemoryRef
from kerncap_stages.manifests.base import Frozen, Manifest, RelativePath, SizeBytes, check_paths, refuse


class StoredFile(Frozen):
    """A file. A large one is stored as a memory: files share chunks, and damage to a chunk stays in it."""

    path: RelativePath
    content: FileRef | MemoryRef
    size_bytes: SizeBytes
    executable: bool = False


class StoredLink(Frozen):
    """A symbolic link to another place in the same folder."""

    path: RelativePath
    target: str = Field(min_length=1)

    @model_validator(mode="after")
    def _check_inside(self) -> Self:
        steps = self.target.split("/")
        up = next((index for index, step in enumerate(steps) if step != ".."), len(steps))
        out = self.target.startswith("/") or up > self.path.count("/")
        # `..` after a name could lead out of the folder if that name is another link.
        refuse(out or ".." in steps[up:], "the link leads out of its folder")
        refuse(not self.target.isprintable(), "the link's target holds control characters")
        return self


class Files(Manifest):
    """A file or folder that ``kc-store put`` stored and ``kc-store get`` writes out again."""

    kind: Literal["files"] = "files"
    schema_version: Literal[1] = 1
    name: RelativePath = Field(description="name of the file or folder, without the folders above it")
    is_folder: bool
    files: tuple[StoredFile, ...]
    links: tuple[StoredLink, ...] = ()
    empty_folders: tuple[RelativePath, ...] = ()

    @model_validator(mode="after")
    def _check_paths(self) -> Self:
        files, links = [file.path for file in self.files], [link.path for link in self.links]
        refuse(files != sorted(files) or links != sorted(links), "paths are not in order")
        check_paths([*files, *links, *self.empty_folders])
        single = len(self.files) == 1 and not self.links and not self.empty_folders
        refuse(not self.is_folder and not (single and self.files[0].path == self.name), "not a single file")
        return self
