"""Compiles a CUDA source by NVRTC, as the program did that passed it there, with nvcc's options.

kc-locate runs this file, and projects have a copy of it: it needs Python alone.
"""

from __future__ import annotations

import ctypes
import re
import shlex
import sys
from pathlib import Path
from typing import Any

_USAGE = (
    "compile_nvrtc.py LIBRARY -cubin|-ptx -arch=TARGET [--options-file FILE] [OPTION...] -o OUTPUT SOURCE"
)
# Lines of kc-locate's that instantiate templates: NVRTC has functions for that.
_INSTANTIATION = re.compile(
    rb"^static const void\* const kernel_\d+ = \(const void\*\)\((.*)\);$", re.MULTILINE
)
_NVCC_ONLY = ("-x",)  # with a value


class _Failed(Exception):  # noqa: N818 - only main() sees it
    """A call of NVRTC that failed."""


def _call(library: Any, name: str, *arguments: Any) -> None:
    code = getattr(library, f"nvrtc{name}")(*arguments)
    if code != 0:
        library.nvrtcGetErrorString.restype = ctypes.c_char_p
        raise _Failed(f"nvrtc{name}: {library.nvrtcGetErrorString(code).decode()}")


def compile_source(library: Any, source: Path, options: list[str], form: str) -> tuple[bytes, str]:
    """Compile a source; ``form``: CUBIN or PTX. Returns the result, and what the compiler printed.

    Raises _Failed with the compiler's messages.
    """
    text = source.read_bytes()
    names = [name.strip() for name in _INSTANTIATION.findall(text)]
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    text = _INSTANTIATION.sub(b"", text)
    _call(library, "CreateProgram", ctypes.byref(program), text, str(source).encode(), 0, None, None)
    for name in names:
        _call(library, "AddNameExpression", program, name)
    words = [option.encode() for option in options]
    code = library.nvrtcCompileProgram(program, len(words), (ctypes.c_char_p * len(words))(*words))
    _call(library, "GetProgramLogSize", program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    _call(library, "GetProgramLog", program, log)
    said = log.value.decode(errors="replace")
    if code != 0:
        raise _Failed(said)
    _call(library, f"Get{form}Size", program, ctypes.byref(size))
    made = ctypes.create_string_buffer(size.value)
    _call(library, f"Get{form}", program, made)
    return made.raw[: size.value], said


def read_words(words: list[str]) -> tuple[list[str], dict[str, str]]:
    """Return NVRTC's options, and what nvcc's other words say: form, target, output, source."""
    options: list[str] = []
    said = {"form": "CUBIN", "target": "", "output": "", "source": ""}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--options-file":
            rest[:0] = shlex.split(Path(rest.pop(0)).read_text(encoding="utf-8", errors="surrogateescape"))
        elif word in _NVCC_ONLY:
            rest.pop(0)
        elif word == "-o":
            said["output"] = rest.pop(0)
        elif word in ("-cubin", "-ptx"):
            said["form"] = word[1:].upper()
        elif word.startswith("-arch="):
            said["target"] = word.removeprefix("-arch=")
        elif word in ("-isystem", "-include"):
            options.append({"-isystem": "-I", "-include": "--pre-include="}[word] + rest.pop(0))
        elif word.startswith("-"):
            options.append(word)
        else:
            said["source"] = word
    return options, said


def main() -> int:
    """Compile, print the compiler's messages to standard error, return an exit code."""
    if len(sys.argv) < 5:
        print(f"usage: {_USAGE}", file=sys.stderr)
        return 2
    options, said = read_words(sys.argv[2:])
    options.append(f"--gpu-architecture={said['target']}")
    try:
        made, log = compile_source(ctypes.CDLL(sys.argv[1]), Path(said["source"]), options, said["form"])
    except (_Failed, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    print(log, end="", file=sys.stderr)
    Path(said["output"]).write_bytes(made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
