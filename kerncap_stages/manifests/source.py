"""The source manifest: where a captured kernel is defined and how it is compiled."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, Self

from pydantic import Field, model_validator

from kerncap_stages.digest import Digest, FileRef, ManifestRef
from kerncap_stages.manifests.base import Frozen, Manifest, OsText, SizeBytes, refuse
from kerncap_stages.manifests.kernel import Language


class Outcome(StrEnum):
    """What the search came to."""

    FOUND = "found"
    AMBIGUOUS = "ambiguous"
    WRONG_DIRECTORY = "wrong_directory"
    TRITON_KERNEL = "triton_kernel"
    NO_SOURCE_TRAIL = "no_source_trail"
    NOT_FOUND = "not_found"


class Parameter(Frozen):
    """A kernel parameter as the source declares it."""

    name: str
    type_name: str
    element_type: str | None = Field(default=None, description="pointed at, by its plain name: `float`")


class HeldAddress(Frozen):
    """An address in an argument, which may be a member of a struct, and what lies there."""

    argument: int = Field(ge=0, description="which of the explicit arguments, counted from 0")
    offset_bytes: int = Field(ge=0, description="from where the argument starts")
    name: str = Field(description="of the parameter and its members, as in `a.out`")
    type_name: str
    element_type: str | None = Field(default=None, description="the numbers there, as kc-validate calls them")


class Definition(Frozen):
    """A definition of a kernel in a file."""

    path: OsText
    line: int = Field(gt=0)
    end_line: int = Field(gt=0)
    qualified_name: str
    template_arguments: str | None = None
    parameters: tuple[Parameter, ...] = ()
    via_line_table: bool = Field(default=False, description="named by the code object's line table")


class SourceFile(Frozen):
    """A file that the compilation reads, kept whole."""

    path: OsText = Field(description="absolute, as the compiler found it")
    payload: FileRef
    size_bytes: SizeBytes
    is_header: bool


class CompileCommand(Frozen):
    """How the translation unit is compiled."""

    translation_unit: OsText
    directory: OsText
    arguments: tuple[OsText, ...] = Field(min_length=1)
    database: OsText | None = Field(
        default=None, description="the compile_commands.json or build.ninja that it is from"
    )
    compiler_version: str | None = None
    added_defines: tuple[OsText, ...] = ()


class Unedited(Frozen):
    """Whether a source becomes the captured instructions before anybody edits it."""

    same_instructions: bool | None = Field(description="none where that could not be seen")
    why: str | None = Field(default=None, description="for people: why they differ, or why it is not known")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        refuse(
            (self.same_instructions is True) != (self.why is None), "whatever is not the same has a reason"
        )
        return self


class ConsultedFile(Frozen):
    """A file that the result depends on; it was looked for and absent where there is no digest."""

    path: OsText
    digest: Digest | None


class Source(Manifest):
    """The source of one captured kernel, or which case it is when there is none."""

    kind: Literal["source"] = "source"
    schema_version: Literal[2] = 2
    capture: ManifestRef
    kernel_name: str
    language: Language
    outcome: Outcome
    explanation: str | None = Field(default=None, description="for people: why, and what to try")
    definition: Definition | None
    candidates: tuple[Definition, ...] = ()
    compile_command: CompileCommand | None
    linked_units: tuple[CompileCommand, ...] = Field(
        default=(), description="other units, whose device code the kernel's unit uses (-fgpu-rdc)"
    )
    files: tuple[SourceFile, ...] = Field(description="the file with the definition comes first")
    held_addresses: tuple[HeldAddress, ...] = Field(
        default=(), description="as the compiler lays arguments out, where the files do not tell"
    )
    headers_by_compiler: bool = Field(description="the list is the compiler's own, not found by reading")
    unedited: Unedited | None = Field(default=None, description="of a source that was found")
    line_table_paths: tuple[OsText, ...] = ()
    searched: tuple[OsText, ...] = Field(default=(), description="folders")
    consulted: tuple[ConsultedFile, ...] = ()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        found = self.outcome is Outcome.FOUND
        refuse(found != (self.definition is not None), "a definition goes with the outcome `found`")
        refuse(found and not self.files, "a found source holds at least its file")
        refuse(found != (self.unedited is not None), "a found source is compared with what was captured")
        return self
