"""Decides which flags of a clang command affect the code of one kernel, and which are unsafe.

A rebuild of one kernel sets its own outputs, targets and phases. Flags that make the compiler run or load
code (plugins, other programs) or write files are left out, because a build folder may come from anybody. Of
words that are passed on to parts of the compiler, only those that are known to affect code are kept.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kerncap_stages.compilers.flag_groups import (
    FOR_ARCHITECTURE,
    PATH_FLAGS,
    TO_COMPILER,
    TO_OPTIMISER,
    group_flags,
    split_words,
)
from kerncap_stages.compilers.flag_paths import make_absolute, make_absolute_for

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kerncap_stages.compilers.compile_commands import CompileCommand


# Outputs, dependency files, phases, GPU targets, relocatable device code, and flags for the host's link.
# A precompiled header is for one compiler and target; the unit includes its text as well.
_DROPPED = split_words(
    """
    -c -S -E -MD -MMD -MP -MG -MV -M -MM -fgpu-rdc -fno-gpu-rdc -save-temps --save-temps
    -fsyntax-only --genco --hip-link -shared -static -rdynamic -pie -no-pie -ftime-trace
    -fgpu-sanitize -emit-llvm --gpu-bundle-output --no-gpu-bundle-output --offload-device-only
    --offload-host-only --cuda-device-only --cuda-host-only --cuda-compile-host-device
    --offload-host-device -v -### --verbose -- --analyze
    -o -MF -MT -MQ -MJ -x --offload-arch --no-offload-arch --serialize-diagnostics -arch -l -L -z -u
    -T --output --language -dependency-file -dependency-dot -gen-cdb-fragment-path
    -Xlinker -Xoffload-linker -Xarch_host -Xassembler -include-pch -Winvalid-pch
    --compile --preprocess --assemble --dependencies --user-dependencies --write-dependencies
    --write-user-dependencies --print-missing-file-dependencies --for-linker --for-assembler
    -emit-ast -emit-interface-stubs -emit-merged-ifs -extract-api --extract-api --precompile -verify-pch
    --verify-pch -module-file-info -rewrite-objc -rewrite-legacy-objc --migrate -fdriver-only -help -version
    --version -dumpversion -dumpmachine --coverage -coverage -ftest-coverage -fprofile-arcs
    """
)
_DROPPED_PREFIXES = tuple(
    split_words(
        """
        --offload-arch= --no-offload-arch= --cuda-gpu-arch= --no-cuda-gpu-arch= --amdgpu-target=
        --offload-targets= -save-temps= --save-temps= -save-stats --save-stats -fuse-cuid= -cuid= -MF -MT -MQ
        -MJ -Wl, -Wa, -l -L -ftime-trace= -gsplit-dwarf -foptimization-record-file= -fdiagnostics-file=
        -fcrash-diagnostics -flto -fno-lto -foffload-lto --output= -fsave-optimization-record
        -fprofile-generate -fprofile-instr-generate -fcoverage-mapping -parallel-jobs= --language= -x -o
        -fproc-stat-report -fstack-usage -fmodule-output -fmodules-cache-path
        -Wp,-M --for-linker= --for-assembler= -print- --print- --help --autocomplete= -fsycl
        """
    )
)
# Flags that are kept though they start like a dropped one.
_KEPT_PREFIXES = ("-fgpu-rdc=", "-opaque", "-object")
# Flags that run or load code, or that change how later flags are read.
_UNSAFE_PREFIXES = (
    *("-fplugin", "-fpass-plugin", "-load", "--config", "-specs", "--specs", "-fuse-ld", "--ld-path"),
    *("-ccc-", "-cc1", "-B", "--prefix", "-wrapper", "-fthinlto-index=", "-plugin", "-add-plugin"),
    *("--hipspv-pass-plugin", "--ptxas-path", "--driver-mode", "-clang:", "--rsp-quoting"),
    *("--offload-arch-tool", "-fthinlto-distributor", "-fthin-link-bitcode", "-module-dependency-dir"),
    *("-gen-reproducer", "--symbol-graph-dir", "-dumpdir", "-index-"),
    # Modules are written to a cache of the user's; another assembler is looked for on PATH.
    *("-fmodules", "-fno-integrated-as", "-no-integrated-as"),
)
# Of words that are passed to clang's front end: outputs, which the rebuild names itself.
_INNER_DROPPED = split_words(
    """
    -o -dependency-file -MT -MD -MMD -MP -main-file-name -diagnostic-log-file -dump-deserialized-decls
    -header-include-file -stats-file -opt-record-file -dwarf-debug-flags -coverage-data-file
    -coverage-notes-file -include-pch
    """
)
# And words that affect code: no other actions, and no values that could be the name of a file.
_INNER_KEPT = re.compile(
    r"-(?:[fmO](?!(?:pass-)?plugin|profile|time-|dump|module|save|proc-|link-)[\w+.,:=-]*|[DU].+|W[\w=-]+"
    r"|std=[\w+:]+|g[\w=-]*|disable-[\w-]+|no-[\w-]+|target-feature)",
    re.DOTALL,
)
_INNER_VALUE = re.compile(r"[\w+.,:=-]+")
# LLVM's own options: switches and numbers; for AMD's back end, also names.
_OPTIMISER_KEPT = re.compile(
    r"-+(?!load|plugin|pass-plugin)[\w-]+(?:=(?:true|false|-?\d[\d.]*))?|-+amdgpu-[\w-]+=[\w,-]+"
)
_JOINED_PATH_FLAGS = ("-isystem", "-iquote", "-idirafter", "-include", "-imacros", "-I")
_EQUAL_PATH_FLAGS = (
    "--sysroot=",
    "-ivfsoverlay=",
    "--rocm-path=",
    "--hip-path=",
    "--rocm-device-lib-path=",
    "--cuda-path=",
)


def keep_shaping_flags(command: CompileCommand, defines: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the flags that affect the code of a translation unit, with absolute paths.

    Left out are the compiler, inputs, outputs, dependency files, GPU targets, relocatable device code, and
    what ``find_unsafe_flags`` returns. ``defines`` are added as ``-D``.
    """
    groups = group_flags(command.arguments[1:])
    kept = [
        word for group in groups if not _is_unsafe(group) for word in _keep_shaping(group, command.directory)
    ]
    return (*kept, *(f"-D{define}" for define in defines))


def find_unsafe_flags(command: CompileCommand) -> tuple[str, ...]:
    """Return the flags that could make the compiler run or load code, or write files: never passed on."""
    return tuple(" ".join(group) for group in group_flags(command.arguments[1:]) if _is_unsafe(group))


def find_dropped_flags(command: CompileCommand) -> tuple[str, ...]:
    """Return the flags and inputs that are left out because a rebuild of one kernel sets its own."""
    groups = group_flags(command.arguments[1:])
    return tuple(
        " ".join(group)
        for group in groups
        if not _is_unsafe(group) and not _keep_shaping(group, command.directory)
    )


def _is_unsafe(group: tuple[str, ...]) -> bool:
    first = group[0]
    if any(word.startswith("@") for word in group):
        return True  # a response file that did not exist when the command was read
    if first in _DROPPED or not first.startswith("-"):
        return False
    if first.startswith(FOR_ARCHITECTURE):
        return len(group) < 2 or not group[1].startswith("-") or _is_unsafe(group[1::2])
    if first == TO_COMPILER:
        return not _may_be_passed_on(group[1::2])
    if first == TO_OPTIMISER:
        return not _is_known_option(group[1::2])
    return first.startswith(("-X", *_UNSAFE_PREFIXES))


def _is_known_option(words: tuple[str, ...]) -> bool:
    return _OPTIMISER_KEPT.fullmatch("=".join(words)) is not None


def _may_be_passed_on(words: tuple[str, ...]) -> bool:
    if not words:
        return False
    word, value = words[0], words[1:]
    if word.startswith(_UNSAFE_PREFIXES):
        return False
    if word in _INNER_DROPPED or _is_dropped(word):
        return True
    if word in PATH_FLAGS or word in ("-D", "-U"):
        return bool(value)
    if word == TO_OPTIMISER:
        return _is_known_option(value)
    if word.startswith(_JOINED_PATH_FLAGS):
        return not value
    return _INNER_KEPT.fullmatch(word) is not None and all(_INNER_VALUE.fullmatch(each) for each in value)


def _keep_shaping(group: tuple[str, ...], directory: Path) -> tuple[str, ...]:
    word = group[0]
    if word in _DROPPED:
        return ()
    if word == TO_OPTIMISER:
        return group
    if word == TO_COMPILER or word.startswith(FOR_ARCHITECTURE):
        inner = group[1::2]
        if inner[0] in _INNER_DROPPED or inner[0] in _DROPPED or _is_dropped(inner[0]):
            return ()
        if len(group) == 4 and inner[0] in PATH_FLAGS:
            return (*group[:3], make_absolute_for(inner[0], group[3], directory))
        return (word, _make_joined_absolute(inner[0], directory), *group[2:])
    if _is_dropped(word) or not word.startswith("-"):
        # A word that is not a flag is an input: this unit, an object, a library, another unit.
        return ()
    if word in PATH_FLAGS:
        return (word, make_absolute_for(word, group[1], directory)) if len(group) > 1 else ()
    return (_make_joined_absolute(word, directory), *group[1:])


def _is_dropped(word: str) -> bool:
    return word.startswith(_DROPPED_PREFIXES) and not word.startswith(_KEPT_PREFIXES)


def _make_joined_absolute(word: str, directory: Path) -> str:
    for flag in _EQUAL_PATH_FLAGS:
        if word.startswith(flag):
            return flag + make_absolute(word[len(flag) :], directory)
    for flag in _JOINED_PATH_FLAGS:
        if word.startswith(flag) and len(word) > len(flag) and not word.startswith("-include-pch"):
            return flag + make_absolute_for(flag, word[len(flag) :].removeprefix("="), directory)
    return word
