"""Which flags of a compile command shape the code of one kernel, and which must not be obeyed.

A rebuild of one kernel sets its own outputs, targets and phases. Flags that make the compiler run or load
somebody's code (plugins, other programs) are left out: a build folder is data.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from kerncap_stages.source.compile_commands import CompileCommand


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


# Outputs, dependency files, phases, GPU targets, relocatable device code, what only concerns the host's link.
_DROPPED = _words(
    """
    -c -S -E -MD -MMD -MP -MG -MV -M -MM -fgpu-rdc -fno-gpu-rdc -save-temps --save-temps
    -fsyntax-only --genco --hip-link -shared -static -rdynamic -pie -no-pie -ftime-trace
    -fgpu-sanitize -emit-llvm --gpu-bundle-output --no-gpu-bundle-output --offload-device-only
    --offload-host-only --cuda-device-only --cuda-host-only --cuda-compile-host-device
    --offload-host-device -v -### --verbose --
    """
)
_DROPPED_WITH_VALUE = _words(
    """
    -o -MF -MT -MQ -MJ -x --offload-arch --no-offload-arch --serialize-diagnostics -arch -Xlinker
    -Xoffload-linker -l -L -z -u -T --output --language
    """
)
_DROPPED_PREFIXES = _words(
    """
    --offload-arch= --no-offload-arch= --cuda-gpu-arch= --no-cuda-gpu-arch= --amdgpu-target=
    --offload-targets= -save-temps= --save-temps= -fuse-cuid= -cuid= -MF -MT -MQ -MJ -Wl, -Wp,-M -l
    -L -ftime-trace= -gsplit-dwarf -foptimization-record-file= -fdiagnostics-file=
    -fcrash-diagnostics -flto -fno-lto -foffload-lto --output= -fsave-optimization-record
    -fprofile-generate -fprofile-instr-generate -fcoverage-mapping -parallel-jobs= --language= -x -o
    """
)
# Flags that start like a dropped one but are not.
_KEPT_PREFIXES = ("-fgpu-rdc=", "-opaque", "-object")
# Flags that run or load code, by the word, by what it starts with, and those whose next word is theirs.
_UNSAFE_PREFIXES = (
    *("-fplugin", "-fpass-plugin", "-load", "--config", "-specs", "--specs", "-fuse-ld", "--ld-path"),
    *("-ccc-", "-B", "--prefix", "-wrapper", "-fthinlto-index="),
)
_UNSAFE_WITH_VALUE = frozenset({"-B", "--config", "-load", "-plugin", "-add-plugin", "-wrapper", "--prefix"})
_INNER = frozenset({"-Xclang", "-mllvm", "-Xarch_device", "-Xarch_host", "-Xpreprocessor", "-Xassembler"})
# Words for the compiler proper, behind -Xclang, that name outputs or start with another action.
_INNER_DROPPED_WITH_VALUE = _words(
    """
    -o -dependency-file -MT -main-file-name -diagnostic-log-file -dump-deserialized-decls
    -header-include-file -stats-file -opt-record-file -dwarf-debug-flags -coverage-data-file
    -coverage-notes-file
    """
)
_PATH_FLAGS = _words(
    """
    -I -isystem -iquote -idirafter -include -imacros -isysroot -iprefix -iwithprefix -include-pch
    -ivfsoverlay --sysroot -cxx-isystem -internal-isystem
    """
)
_JOINED_PATH_FLAGS = ("-isystem", "-iquote", "-idirafter", "-include", "-imacros", "-I")
_EQUAL_PATH_FLAGS = ("--sysroot=", "-ivfsoverlay=", "--rocm-path=", "--hip-path=", "--rocm-device-lib-path=")


def compile_flags(command: CompileCommand, defines: Sequence[str] = ()) -> tuple[str, ...]:
    """The flags that shape the code of a translation unit, with absolute paths.

    Left out: the compiler, inputs, outputs, dependency files, GPU targets, relocatable device code, and what
    ``unsafe_flags`` names. ``defines`` are added as ``-D``.
    """
    kept = [word for group in _groups(command) if not _is_unsafe(group) for word in _shaping(group, command)]
    return (*kept, *(f"-D{define}" for define in defines))


def unsafe_flags(command: CompileCommand) -> tuple[str, ...]:
    """Flags of a command that would make the compiler run or load code: they are never passed on."""
    return tuple(" ".join(group) for group in _groups(command) if _is_unsafe(group))


def _groups(command: CompileCommand) -> Iterator[tuple[str, ...]]:
    """A command's flags, each with the words that belong to it."""
    words = list(command.arguments[1:])
    while words:
        word = words.pop(0)
        takes = word in _PATH_FLAGS or word in _DROPPED_WITH_VALUE or word in _UNSAFE_WITH_VALUE
        takes = takes or word in ("-D", "-U", "-target", "--target", "--param", "-std", "-working-directory")
        if word in _INNER and words:
            inner = words.pop(0)
            group = [word, inner]
            valued = {*_UNSAFE_WITH_VALUE, *_INNER_DROPPED_WITH_VALUE, *_PATH_FLAGS, "-mllvm", "-D", "-U"}
            if inner in valued and len(words) > 1 and words[0] == word:
                group += [words.pop(0), words.pop(0)]
            yield tuple(group)
        elif takes and words:
            yield word, words.pop(0)
        else:
            yield (word,)


def _is_unsafe(group: tuple[str, ...]) -> bool:
    words = group[1::2] if group[0] in _INNER else group[:1]
    return any(word.startswith(_UNSAFE_PREFIXES) or word in _UNSAFE_WITH_VALUE for word in words)


def _shaping(group: tuple[str, ...], command: CompileCommand) -> tuple[str, ...]:
    word, directory = group[0], command.directory
    if word in _INNER:
        if len(group) < 2 or word == "-Xarch_host" or group[1] in _INNER_DROPPED_WITH_VALUE:
            return ()
        if len(group) == 4 and group[1] in _PATH_FLAGS:
            return (*group[:3], _absolute(group[3], directory))
        return group
    if word in _DROPPED or word in _DROPPED_WITH_VALUE:
        return ()
    if word.startswith(_DROPPED_PREFIXES) and not word.startswith(_KEPT_PREFIXES):
        return ()
    if not word.startswith("-"):
        # What is not a flag is an input: this unit, an object, a library, another unit.
        return ()
    if word in _PATH_FLAGS:
        return (word, _absolute(group[1], directory)) if len(group) > 1 else ()
    return (_absolute_joined(word, directory), *group[1:])


def _absolute(value: str, directory: Path) -> str:
    return os.path.normpath(directory / value)


def _absolute_joined(word: str, directory: Path) -> str:
    for flag in _EQUAL_PATH_FLAGS:
        if word.startswith(flag):
            return flag + _absolute(word[len(flag) :], directory)
    for flag in _JOINED_PATH_FLAGS:
        if word.startswith(flag) and len(word) > len(flag) and not word.startswith("-include-pch"):
            return flag + _absolute(word[len(flag) :].removeprefix("="), directory)
    return word
