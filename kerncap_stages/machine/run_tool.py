"""Runs compilers and related tools, without a shell, with an empty standard input and a time limit."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.errors import DeviceError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_TIMEOUT_S = 300
# nvcc adds the options in these variables to every command. Options that choose the target, the output or
# the compilation phase are removed from them, because the stages choose those.
_ADDED_BY_NVCC = ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS")
_OURS_TO_NAME = re.compile(
    r"""(?<!\S)(?:
    (?:-arch|--gpu-architecture|-gencode|--generate-code|-code|--gpu-code|-o|--output-file)(?:=|\s+)\S+
    |-?-(?:ptx|cubin|fatbin|optix-ir|ltoir|dlink|device-link|dc|device-c|c|compile|dryrun|keep|save-temps)
    )(?!\S)""",
    re.VERBOSE,
)
# clang reads these variables: they change its arguments, or make it write files or output of their own.
_REWRITES_COMMANDS = frozenset(
    {
        "CCC_OVERRIDE_OPTIONS",
        "DEPENDENCIES_OUTPUT",
        "SUNPRO_DEPENDENCIES",
        "CC_PRINT_OPTIONS",
        "CC_PRINT_HEADERS",
    }
)


def run_tool(
    words: Sequence[object],
    folder: Path | None = None,
    hint: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end in ``folder`` (default: the current one) and return its output.

    It gets ``environment`` (default: our own) without the variables that would change the command.
    Raises DeviceError, with ``hint``, if it cannot be started or does not end. The caller checks the exit
    code.
    """
    command = [str(word) for word in words]
    given = os.environ if environment is None else environment
    try:
        return subprocess.run(
            command,
            cwd=folder,
            env=_neutralize(given),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DeviceError(f"cannot run {command[0]}: {error}", hint=hint) from error


def _neutralize(environment: Mapping[str, str]) -> dict[str, str]:
    """Drop what changes a compiler's command, and a ROCM_PATH that does not exist: clang would use it."""
    kept = {name: value for name, value in environment.items() if name not in _REWRITES_COMMANDS}
    if not Path(kept.get("ROCM_PATH", "/")).is_dir():
        del kept["ROCM_PATH"]
    for name in _ADDED_BY_NVCC:
        if name in kept:
            kept[name] = _OURS_TO_NAME.sub("", kept[name]).strip()
    return kept
