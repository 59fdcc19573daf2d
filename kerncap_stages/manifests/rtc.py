"""What a program passed to a compiler that is a library: AMD's hipRTC, NVIDIA's NVRTC."""

from __future__ import annotations

from pydantic import Field

from kerncap_stages.digest import FileRef
from kerncap_stages.manifests.base import Frozen, OsText, SizeBytes


class RtcFile(Frozen):
    """A text that the program passed, with the name by which it is included."""

    name: OsText
    text: FileRef
    size_bytes: SizeBytes


class RtcProgram(Frozen):
    """A source that was compiled at run time, and what it was compiled with."""

    compiler: str = Field(description="the library that compiled: `comgr 3.0` (hipRTC), `nvrtc 13.0`")
    library: OsText = Field(description="the library's file")
    directory: OsText = Field(description="the process's folder: relative paths in options begin there")
    target: str = Field(description="the processor as the library names it; empty if only options do")
    source: RtcFile = Field(description="of hipRTC's, lines at its end instantiate the name expressions")
    headers: tuple[RtcFile, ...] = Field(default=(), description="those of hipRTC itself, too")
    options: tuple[OsText, ...] = Field(description="those that hipRTC adds, too")
    name_expressions: tuple[str, ...] = Field(default=(), description="NVRTC's: they instantiate templates")
