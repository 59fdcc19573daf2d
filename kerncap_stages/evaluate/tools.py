"""Identifies the compilers that a project's Makefile runs, and what steers them.

A code object that was built before is one of today only if nothing of this has changed.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.compilers.installed import find_compiler, is_hipcc
from kerncap_stages.errors import KerncapError
from kerncap_stages.machine.run_tool import run_tool

if TYPE_CHECKING:
    from collections.abc import Iterator

# The Makefiles' variables that name programs; the environment may set each.
_TOOLS = ("HIPCC", "CLANG", "NVCC", "NVRTC", "PTXAS", "PYTHON", "KC_ASSEMBLE")
# What make, the compilers and their parts read beside their arguments.
_STEERING = (
    *("PATH", "LD_LIBRARY_PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX", "CPATH", "C_INCLUDE_PATH"),
    *("CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "CCC_OVERRIDE_OPTIONS", "CLANG_CONFIG_FILE_USER_DIR"),
    *("GPU_ARCH", "TARGET", "MAKEFLAGS", "MAKEFILES", "PTXAS_FLAGS", "SOURCE_DATE_EPOCH", "HOME"),
    *("ROCM_PATH", "HIP_PATH", "HIP_CLANG_PATH", "HIP_PLATFORM", "HIP_DEVICE_LIB_PATH", "DEVICE_LIB_PATH"),
    *("HIPCC_COMPILE_FLAGS_APPEND", "HIPCC_LINK_FLAGS_APPEND", "CUDA_HOME", "CUDA_PATH"),
    *("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN", "PYTHONPATH"),
)
# What nvcc runs, from its own folder and from PATH.
_PARTS_OF_NVCC = ("ptxas", "fatbinary", "cudafe++", "../nvvm/bin/cicc", "../nvvm/libdevice/libdevice.10.bc")
_HOST_COMPILERS = ("gcc", "g++", "cc", "c++")


def identify_tools(project: Path) -> str | None:
    """Return a digest of the compilers that ``make`` would run in a project; None if they are not known."""
    asked = "".join(f"$(info {name}=$({name}))" for name in _TOOLS)
    try:
        told = run_tool(["make", "-s", "-C", project, f"--eval=kc-tools: ; {asked}@:", "kc-tools"])
    except KerncapError:
        return None
    if told.returncode != 0:
        return None
    named = dict(line.split("=", 1) for line in told.stdout.splitlines() if line.partition("=")[0] in _TOOLS)
    what = {
        "tools": {name: [*_describe(value)] for name, value in named.items() if value},
        "environment": {name: os.environ.get(name) for name in (*_STEERING, *_TOOLS)},
    }
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()


def _describe(command: str) -> Iterator[object]:
    """Describe each word of a command that names a file or a program: a launcher may stand first."""
    try:
        words = shlex.split(command)
    except ValueError:
        words = [command]
    for word in words:
        yield word
        found = shutil.which(word) or word
        yield _stamp(Path(found))
        if is_hipcc(word):  # a script, which stays while its clang changes
            try:
                yield _stamp(Path(find_compiler(word).path))
            except KerncapError as error:
                yield str(error)
        for part in _PARTS_OF_NVCC:
            yield _stamp(Path(os.path.realpath(found)).parent / part)
    yield [_stamp(Path(shutil.which(name) or name)) for name in _HOST_COMPILERS]


def _stamp(path: Path) -> list[object]:
    """Return what changes when a file is replaced; its links are followed."""
    try:
        status = path.stat()
    except OSError:
        return []
    return [os.path.realpath(path), status.st_size, status.st_mtime_ns, status.st_ino]
