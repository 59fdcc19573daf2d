"""The source manifest: where a captured kernel is defined and how it is compiled."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from kerncap_stages.digest import Digest, FileRef, ManifestRef
from kerncap_stages.manifests.base import Frozen, Manifest, OsText, Remark, SizeBytes, refuse
from kerncap_stages.manifests.kernel import Language


class Outcome(StrEnum):
    """The result of the search for a source."""

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
    element_type: str | None = Field(
        default=None, description="what it points to, by its plain name: `float`"
    )


class HeldAddress(Frozen):
    """An address in an argument or in a member of a struct argument, and the elements that it points to."""

    argument: int = Field(ge=0, description="which of the explicit arguments, counted from 0")
    offset_bytes: int = Field(ge=0, description="offset from the start of the argument")
    name: str = Field(description="name of the parameter and its members, as in `a.out`")
    type_name: str
    element_type: str | None = Field(
        default=None, description="type of the numbers at the address, as kc-validate names it"
    )


class Definition(Frozen):
    """A kernel's definition in a file."""

    path: OsText
    line: int = Field(gt=0)
    end_line: int = Field(gt=0)
    qualified_name: str
    template_arguments: str | None = None
    parameters: tuple[Parameter, ...] = ()
    via_line_table: bool = Field(default=False, description="named by the code object's line table")


class SourceFile(Frozen):
    """A file that the compilation reads, with its contents."""

    path: OsText = Field(description="absolute path, as the compiler found it")
    payload: FileRef
    size_bytes: SizeBytes
    is_header: bool


class CompileCommand(Frozen):
    """The command that compiles a translation unit."""

    translation_unit: OsText
    directory: OsText
    arguments: tuple[OsText, ...] = Field(min_length=1)
    database: OsText | None = Field(
        default=None, description="the compile_commands.json or build.ninja that holds it"
    )
    compiler_version: str | None = None
    added_defines: tuple[OsText, ...] = ()


class Unedited(Frozen):
    """Whether the unedited source compiles to the captured instructions."""

    same_instructions: bool | None = Field(description="none if that is not known")
    why: Remark | None = Field(
        default=None, description="for people: why they differ, or why it is not known"
    )
    one_kernel: bool = Field(
        default=False, description="the same also if the unit is compiled without its other kernels"
    )
    whole_unit_because: Remark | None = Field(
        default=None, description="for people: why the other kernels cannot be left out, if that was tried"
    )

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        refuse(
            (self.same_instructions is True) != (self.why is None),
            "a reason is needed unless the instructions are the same",
        )
        return self


class FileHead(Frozen):
    """The first lines of a file."""

    path: OsText
    line_count: int = Field(ge=0)
    digest: Digest


class Instantiated(Frozen):
    """Templates of the headers that the kernel uses: they are instantiated before an edit."""

    text: str = Field(description="the end of a header that instantiates them")
    declared: Digest = Field(description="of what the edited file declares: an edit must not change it")


class PrecompiledHeaders(Frozen):
    """Headers that a compiler can parse once, while the kernel's file is edited again and again."""

    added: ClassVar[frozenset[str]] = frozenset({"instantiated"})

    text: str = Field(description="a header that includes them")
    heads: tuple[FileHead, ...] = Field(description="what must not change, for it to stand for them")
    instantiated: Instantiated | None = None


class ConsultedFile(Frozen):
    """A file that the result depends on. No digest: it was looked for and did not exist."""

    path: OsText
    digest: Digest | None


class Source(Manifest):
    """The source of a captured kernel, or the reason why none was found."""

    kind: Literal["source"] = "source"
    schema_version: Literal[3] = 3
    capture: ManifestRef
    kernel_name: str
    language: Language
    outcome: Outcome
    explanation: Remark | None = Field(default=None, description="for people: why, and what to try")
    definition: Definition | None
    candidates: tuple[Definition, ...] = ()
    compile_command: CompileCommand | None
    linked_units: tuple[CompileCommand, ...] = Field(
        default=(), description="other units with device code that the kernel's unit uses (-fgpu-rdc)"
    )
    files: tuple[SourceFile, ...] = Field(description="the file with the definition comes first")
    held_addresses: tuple[HeldAddress, ...] = Field(
        default=(), description="addresses that only the compiler's layout of the arguments shows"
    )
    headers_by_compiler: bool = Field(
        description="the compiler listed the headers; otherwise they were found by reading the files"
    )
    unedited: Unedited | None = Field(default=None, description="comparison for a source that was found")
    precompiled: PrecompiledHeaders | None = Field(
        default=None, description="headers that can be precompiled; the instructions are the same"
    )
    line_table_paths: tuple[OsText, ...] = ()
    searched: tuple[OsText, ...] = Field(default=(), description="folders")
    consulted: tuple[ConsultedFile, ...] = ()

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        found = self.outcome is Outcome.FOUND
        refuse(
            found != (self.definition is not None),
            "the outcome `found` needs a definition, and no other has one",
        )
        refuse(found and not self.files, "a source that was found needs at least one file")
        refuse(
            found != (self.unedited is not None),
            "the outcome `found` needs a comparison with the captured instructions, and no other has one",
        )
        return self
