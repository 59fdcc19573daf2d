"""The source of a Triton kernel whose program recorded nothing of it.

What tells it from a kernel in C++: its line table names Python files. Those of other compilers of Python
do, too. A code object without a line table may be of either; then a function that Triton compiles must have
the kernel's name, which C++ would have mangled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerncap_stages import __version__
from kerncap_stages.digest import Digest, FileRef, ManifestRef
from kerncap_stages.locate.python_kernels import find_python_kernels
from kerncap_stages.manifests.base import to_os_text
from kerncap_stages.manifests.kernel import Language
from kerncap_stages.manifests.source import (
    ConsultedFile,
    Definition,
    Outcome,
    Parameter,
    Source,
    SourceFile,
    Unedited,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kerncap_stages.compilers.consulted import Consulted
    from kerncap_stages.compilers.line_tables import LineTables
    from kerncap_stages.locate.python_kernels import PythonKernel
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.store import Transaction

_NO_RECORD = "its program recorded nothing of it: capture it again, without python's options -I, -E and -S"
_IF_TRITON = f"if it is a Triton kernel, {_NO_RECORD}"
_ONLY_INSTRUCTIONS = "without the record, how Triton compiled it is not known, so its instructions are edited"


def find_triton_source(
    capture: Capture,
    digest: Digest,
    tables: LineTables,
    roots: Sequence[Path],
    consulted: Consulted,
    transaction: Transaction,
) -> Source | None:
    """Describe the source of a kernel if it is Triton's; None if nothing says so.

    digest: the capture's.
    """
    told = find_python_file(tables)
    if told is None and (tables.paths or capture.kernel.mangled_name != capture.kernel.demangled_name):
        return None
    name = capture.kernel.mangled_name
    arguments = sum(not slot.is_hidden for slot in capture.kernel.slots) or None
    kernels = find_python_kernels(roots, name, arguments, tables, consulted)
    if told is None and not kernels:
        return None
    outcome = Outcome.FOUND if len(kernels) == 1 else Outcome.TRITON_KERNEL
    if len(kernels) > 1:
        outcome = Outcome.AMBIGUOUS
    found = kernels[0] if len(kernels) == 1 else None
    return Source(
        parents=(ManifestRef.to(digest),),
        made_by=f"kerncap-stages {__version__}",
        capture=ManifestRef.to(digest),
        kernel_name=capture.kernel.demangled_name,
        language=Language.TRITON,
        outcome=outcome,
        explanation=_explain(name, told, kernels),
        definition=None if found is None else _describe(found),
        candidates=tuple(map(_describe, kernels)),
        compile_command=None,
        files=() if found is None else _store_files(found, transaction),
        headers_by_compiler=False,
        unedited=None if found is None else Unedited(same_instructions=None, why=_NO_RECORD),
        line_table_paths=tuple(to_os_text(str(path)) for path in tables.paths),
        searched=tuple(to_os_text(str(root)) for root in roots),
        consulted=tuple(
            ConsultedFile(path=to_os_text(str(path)), digest=None if digest is None else Digest(digest))
            for path, digest in sorted(consulted.digests.items())
        ),
    )


def _explain(name: str, told: Path | None, kernels: Sequence[PythonKernel]) -> str:
    if not kernels:  # numba and others compile Python, too
        return f"{name} was compiled from Python, {told}; no function there is known to be it; {_IF_TRITON}"
    origin = f", compiled from {told}" if told is not None else ": its source is Python"
    text = f"{name} is a Triton kernel{origin}; {_NO_RECORD}; {_ONLY_INSTRUCTIONS}"
    if len(kernels) == 1:
        return text
    text += f"; {len(kernels)} functions fit: " + ", ".join(f"{each.path}:{each.line}" for each in kernels)
    if len({each.path.parent for each in kernels}) == 1:
        return f"{text}; a capture with a record says which"
    return f"{text}; name the right file with --source-dir FILE"


def find_python_file(tables: LineTables) -> Path | None:
    """Return the Python file that a line table names; None if it names none."""
    definition = () if tables.definition is None else (tables.definition[0],)
    return next((path for path in (*definition, *tables.paths) if path.suffix == ".py"), None)


def _describe(kernel: PythonKernel) -> Definition:
    return Definition(
        path=to_os_text(str(kernel.path)),
        line=kernel.line,
        end_line=kernel.last_line,
        qualified_name=kernel.qualified_name,
        parameters=tuple(
            Parameter(name=name, type_name="constexpr" if "constexpr" in annotation else annotation)
            for name, annotation in kernel.parameters
        ),
        via_line_table=kernel.by_line_table,
    )


def _store_files(kernel: PythonKernel, transaction: Transaction) -> tuple[SourceFile, ...]:
    return tuple(
        SourceFile(
            path=to_os_text(str(path)),
            payload=FileRef.to(transaction.put_file(path)),
            size_bytes=path.stat().st_size,
            is_header=path != kernel.path,
        )
        for path in kernel.files
    )
