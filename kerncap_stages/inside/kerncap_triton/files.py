"""The folder of the records: what other processes of the program write to, too."""

from __future__ import annotations

import os
import tempfile
import traceback

FOLDER = "KERNCAP_TRITON_RECORDS"  # the variable that names the folder
RECORD = "KERNCAP_TRITON_KERNELS"  # what is recorded of kernels: one of the next three
WHOLE, BRIEF, BOTH = "whole", "brief", "both"
ERRORS = "errors"
SOURCE_SUFFIX = ".py"
PTX_SUFFIX = ".ptx"
RECORD_SUFFIX = ".json"
LAUNCH_PREFIX = "launch-"
CONFIGURATION_PREFIX = "configuration-"

_folder = os.environ.get(FOLDER, "")  # the program may change its environment later


def name_configuration(symbol: str, checksum: int) -> str:
    """Name the file of a kernel's configuration."""
    return f"{CONFIGURATION_PREFIX}{symbol[:100]}-{checksum:08x}{RECORD_SUFFIX}"


def exists(name: str) -> bool:
    """Whether this file was written, by this process or another."""
    return os.path.exists(os.path.join(_folder, name))


def write(name: str, data: bytes) -> None:
    """Write a file as a whole, or not at all. Another process may write the same one."""
    if not exists(name):
        replace(name, data)


def replace(name: str, data: bytes) -> None:
    """Write a file as a whole, also where there is one of this name."""
    handle, temporary = tempfile.mkstemp(dir=_folder)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
    os.replace(temporary, os.path.join(_folder, name))


def report(what: str) -> None:
    """Tell the collector of a failure: what failed, and Python's last words. Never raises."""
    try:
        last = traceback.format_exc(limit=-1).strip().splitlines()[-1]
        with open(os.path.join(_folder, ERRORS), "a", encoding="utf-8") as file:
            file.write(f"{what}: {last}\n")
    except Exception:
        pass
