"""The source of a Triton kernel, from what its program recorded when it compiled it: nothing is searched."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerncap_stages import __version__
from kerncap_stages.digest import Digest, ManifestRef
from kerncap_stages.manifests.kernel import Language
from kerncap_stages.manifests.source import Definition, Outcome, Parameter, Source, SourceFile, Unedited

if TYPE_CHECKING:
    from kerncap_stages.manifests.base import OsText
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.triton import TritonFunction, TritonKernel

_NO_COMMAND = "Triton compiles it when the program runs, so there is no compile command"
_NOT_COMPARED = "kc-locate does not run Triton"


def describe_jitted(capture: Capture, digest: Digest, triton: TritonKernel) -> Source:
    """Describe the source of a captured Triton kernel. ``digest``: the capture's."""
    function = triton.functions[0]
    types = dict(triton.signature)
    files: dict[OsText, TritonFunction] = {}
    for each in triton.functions:  # functions of one file are recorded with one text, unless it was changed
        files.setdefault(each.path, each)
    return Source(
        parents=(ManifestRef.to(digest),),
        made_by=f"kerncap-stages {__version__}",
        capture=ManifestRef.to(digest),
        kernel_name=capture.kernel.demangled_name,
        language=Language.TRITON,
        outcome=Outcome.FOUND,
        explanation=_NO_COMMAND,
        definition=Definition(
            path=function.path,
            line=function.line,
            end_line=function.end_line,
            qualified_name=function.qualified_name,
            parameters=tuple(
                Parameter(name=name, type_name=types.get(name, "constexpr"))
                for name in triton.parameter_names
            ),
        ),
        compile_command=None,
        files=tuple(
            SourceFile(
                path=each.path,
                payload=each.source,
                size_bytes=each.source_size_bytes,
                is_header=each.path != function.path,
            )
            for each in files.values()
        ),
        headers_by_compiler=True,
        unedited=Unedited(same_instructions=None, why=_NOT_COMPARED),
    )
