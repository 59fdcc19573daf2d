"""Turns a finding into the parts of a source manifest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerncap_stages.digest import Digest, FileRef
from kerncap_stages.manifests.base import to_os_text
from kerncap_stages.manifests.source import (
    CompileCommand,
    Definition,
    FileHead,
    Instantiated,
    Parameter,
    PrecompiledHeaders,
    SourceFile,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kerncap_stages.code.kernel_names import KernelName
    from kerncap_stages.compilers.precompiled import Precompiled
    from kerncap_stages.compilers.toolchain import Toolchain
    from kerncap_stages.locate import definitions
    from kerncap_stages.locate.options import Options
    from kerncap_stages.locate.units import Unit
    from kerncap_stages.store import Transaction


def describe_definition(
    found: definitions.Definition, name: KernelName, *, by_line_table: bool
) -> Definition:
    """Describe a definition for the manifest."""
    return Definition(
        path=to_os_text(str(found.path)),
        line=found.line,
        end_line=max(found.line, found.last_line),
        qualified_name="::".join((*found.scopes, name.base)),
        template_arguments=", ".join(name.template_arguments) or None,
        parameters=tuple(
            Parameter(name=parameter, type_name=type_name, element_type=parse_element_type(type_name))
            for type_name, parameter in found.parameters
        ),
        via_line_table=by_line_table,
    )


def describe_precompiled(made: Precompiled) -> PrecompiledHeaders:
    """Describe headers that can be precompiled."""
    heads = (
        FileHead(path=to_os_text(str(head.path)), line_count=head.line_count, digest=Digest(head.digest))
        for head in made.heads
    )
    more = made.instantiated
    instantiated = None
    if more is not None:
        instantiated = Instantiated(text=more.text, declared=Digest(more.declared))
    return PrecompiledHeaders(text=made.text, heads=tuple(heads), instantiated=instantiated)


def parse_element_type(type_name: str) -> str | None:
    """Return what a pointer type points to: ``float`` for ``const float*``; None for other types."""
    if "*" not in type_name:
        return None
    words = (
        type_name.split("*", 1)[0].replace("const", " ").replace("volatile", " ").replace("__restrict__", " ")
    )
    return " ".join(words.split()) or None


def describe_command(
    unit: Unit, database: Path | None, options: Options, toolchain: Toolchain
) -> CompileCommand | None:
    """Describe a compile command for the manifest: absolute paths, no outputs, no GPU targets."""
    if unit.command is None:
        if not unit.headers_by_compiler:
            return None
        # The compiler accepts the unit without further flags. The manifest names no database, so it shows
        # that this command is assumed.
        compiler = options.compiler or toolchain.assumed
        arguments = (compiler, "-O3", *(f"-D{define}" for define in options.defines))
        return CompileCommand(
            translation_unit=to_os_text(str(unit.path)),
            directory=to_os_text(str(unit.path.parent)),
            arguments=tuple(to_os_text(word) for word in arguments),
            compiler_version=unit.tool.read_version() if unit.tool else None,
            added_defines=tuple(to_os_text(define) for define in options.defines),
        )
    compiler = options.compiler or unit.command.compiler
    flags = toolchain.complete_flags(compiler, toolchain.choose_flags(unit.command, options.defines))
    return CompileCommand(
        translation_unit=to_os_text(str(unit.path)),
        directory=to_os_text(str(unit.command.directory)),
        arguments=tuple(to_os_text(word) for word in (compiler, *flags)),
        database=to_os_text(str(database)) if database else None,
        compiler_version=unit.tool.read_version() if unit.tool else None,
        added_defines=tuple(to_os_text(define) for define in options.defines),
    )


def store_assembly(path: Path, text: bytes, transaction: Transaction) -> tuple[SourceFile, ...]:
    """Store a kernel's assembly, which may be a part of the file at ``path``."""
    payload = FileRef.to(transaction.put_bytes(text))
    return (SourceFile(path=to_os_text(str(path)), payload=payload, size_bytes=len(text), is_header=False),)


def store_files(
    definition_file: Path, units: Sequence[Unit], transaction: Transaction
) -> tuple[SourceFile, ...]:
    """Store every file of the units, the definition's file first."""
    read = (path for unit in units for path in (unit.path, *unit.headers))
    paths = dict.fromkeys((definition_file, *read))
    compiled = {unit.path for unit in units}
    return tuple(
        SourceFile(
            path=to_os_text(str(path)),
            payload=FileRef.to(transaction.put_file(path)),
            size_bytes=path.stat().st_size,
            is_header=path not in compiled,
        )
        for path in paths
    )
