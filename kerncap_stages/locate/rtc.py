"""The source of a kernel that its program compiled at run time, from what the capture recorded.

The recorded texts are written to a temporary folder and searched there like any build with one command. In
the result the files are below a folder that exists nowhere, /hiprtc or /nvrtc: a project has copies of them.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from kerncap_stages.compilers.compile_commands import CompileCommand
from kerncap_stages.compilers.consulted import SOURCE_SUFFIXES
from kerncap_stages.compilers.nvrtc import find_nvrtc
from kerncap_stages.errors import DeviceError
from kerncap_stages.manifests.os_strings import to_os_string

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kerncap_stages.compilers.toolchain import Toolchain
    from kerncap_stages.manifests.rtc import RtcProgram
    from kerncap_stages.store import Store, Transaction

# The lines with which hipRTC instantiates the templates that the program names, at the end of the source.
_INSTANTIATIONS = re.compile(rb"\n[ \t]*static __device__ const void ?\* ?__amdgcn_name_expr_")
# hipRTC's name of a program without one; letters of it may be random.
_UNNAMED = re.compile(r"CompileSource\w*")
_INCLUDE = "include"


def write_program(
    store: Store | Transaction, rtc: RtcProgram, folder: Path, toolchain: Toolchain
) -> CompileCommand:
    """Write the texts of a program, and return the command that compiles them."""
    include = folder / _INCLUDE
    include.mkdir()
    placed: dict[str, str] = {}
    for header in rtc.headers:
        name = to_os_string(header.name)
        place = _place(include, name)
        if place is not None:
            place.parent.mkdir(parents=True, exist_ok=True)
            _write(place, store.get(header.text.digest))
            placed[name] = str(place)
    text, instantiations = _split_source(store.get(rtc.source.text.digest), rtc.name_expressions)
    file = folder / _name_source(to_os_string(rtc.source.name), ".cu" if is_nvrtc(rtc) else ".hip")
    _write(file, text)
    unit = file
    if instantiations:
        unit = folder / f"instantiations{file.suffix}"
        _write(unit, f'#include "{file.name}"\n'.encode() + instantiations)
    compiler = _find_compiler(Path(to_os_string(rtc.library)), toolchain)
    options = [to_os_string(option) for option in rtc.options]
    for i in range(1, len(options)):
        if options[i - 1] == "-include":  # a file of that name in the program's folder is another one
            options[i] = placed.get(options[i], options[i])
    directory = Path(to_os_string(rtc.directory))
    return CompileCommand(
        unit,
        directory if directory.is_absolute() and directory.is_dir() else folder,
        (compiler, f"-I{include}", *options, "-c", str(unit)),
    )


def list_commands(command: CompileCommand, rtc: RtcProgram) -> Iterator[CompileCommand]:
    """Yield the commands to try: nvcc's, then the library's own. nvcc may refuse what NVRTC compiles."""
    yield command
    if is_nvrtc(rtc):
        with contextlib.suppress(DeviceError):
            path = find_nvrtc(to_os_string(rtc.library)).path
            yield replace(command, arguments=(path, *command.arguments[1:]))


def is_nvrtc(rtc: RtcProgram) -> bool:
    """Whether NVRTC compiled it; otherwise it was hipRTC."""
    return rtc.compiler.startswith("nvrtc")


def name_folder(rtc: RtcProgram) -> str:
    """Return the folder that stands for the temporary one."""
    return "/nvrtc" if is_nvrtc(rtc) else "/hiprtc"


def rename_folder(manifest: bytes, folder: Path, name: str) -> bytes:
    """Replace a temporary folder's path in a manifest. No other text of it has that random name."""
    return manifest.replace(json.dumps(str(folder), ensure_ascii=False)[1:-1].encode(), name.encode())


def explain(rtc: RtcProgram) -> str:
    """Say who compiled it."""
    return f"the program compiled it at run time ({rtc.compiler})"


def _find_compiler(library: Path, toolchain: Toolchain) -> str:
    """Prefer the compiler that was installed with the library: it is of the same version.

    It is run, and a capture may come from anybody: so it must be root's.
    """
    own = library.parent.parent / "bin" / toolchain.assumed
    is_trusted = library.is_absolute() and own.is_file() and own.stat().st_uid == 0
    return str(own) if is_trusted else toolchain.assumed


def _split_source(text: bytes, name_expressions: Sequence[str]) -> tuple[bytes, bytes]:
    """Return the program's own text, and lines that instantiate the templates that it names."""
    added = _INSTANTIATIONS.search(text)
    if added is not None:
        return text[: added.start()], text[added.start() :]
    lines = (
        f"static const void* const kernel_{number} = (const void*)({name.strip()});\n"
        for number, name in enumerate(name_expressions, 1)
        if not name.strip().startswith("&")  # a variable's
    )
    return text, "".join(lines).encode()


def _place(folder: Path, name: str) -> Path | None:
    """Return the place of a header. None: no compiler would find the header by its name there."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts or "\0" in name:
        return None
    return folder.joinpath(*path.parts)


def _name_source(name: str, suffix: str) -> str:
    plain = re.sub(r"[^\w.+-]", "_", PurePosixPath(name).name, flags=re.ASCII).lstrip("-.")
    if not plain or _UNNAMED.fullmatch(plain):
        plain = "program"
    return plain if Path(plain).suffix.lower() in SOURCE_SUFFIXES else f"{plain}{suffix}"


def _write(path: Path, text: bytes) -> None:
    path.write_bytes(text)
    os.utime(path, (0, 0))  # no file is newer than the program
