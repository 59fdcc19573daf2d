"""Compile commands of a ``build.ninja``, as PyTorch's extensions have one: ninja prints them.

It runs nothing: ``-t compdb`` ends when the file is read, before ninja opens its logs, brings the file up to
date or makes a folder. It reads what the file includes, which may be a device without an end: such a file is
not taken.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.errors import DeviceError, UsageError
from kerncap_stages.run_tool import run_tool
from kerncap_stages.source.consulted import SOURCE_SUFFIXES

if TYPE_CHECKING:
    from kerncap_stages.source.consulted import Consulted

# A few lines may ask for words of any length: 1 GiB of memory; by the shell's unit, 64 or 128 MiB of words.
_BOUNDED = 'ulimit -v 1048576 && ulimit -f 131072 && exec "$@" > told'
_OTHER_FILES = re.compile(rb"^[ \t]*(?:include|subninja)\b", re.MULTILINE)


def is_ninja_file(path: Path) -> bool:
    """Whether a file is called like ninja's."""
    return path.suffix == ".ninja"


def ninja_entries(path: Path, consulted: Consulted) -> list[dict[str, object]]:
    """The commands that compile sources, as a ``compile_commands.json`` beside the file would have them.

    Raises UsageError where the file cannot be read alone, or there is no ninja.
    """
    tool = shutil.which("ninja")
    text = consulted.read(path)
    if tool is None:
        raise UsageError(f"{path} needs ninja to be read", hint="pip install ninja")
    if text is None or _OTHER_FILES.search(text):
        raise UsageError(
            f"{path} is not read, as it includes other files or is no plain file",
            hint=f"ninja -C {path.parent} -t compdb > compile_commands.json, or CMake's own",
        )
    try:
        # What was looked at is what is read, in a folder that has nothing else.
        with tempfile.TemporaryDirectory(prefix="kerncap-ninja-") as name:
            folder = Path(name)
            (folder / "build.ninja").write_bytes(text)
            done = run_tool(["sh", "-c", _BOUNDED, "sh", tool, "-t", "compdb", "-x"], folder)
            if done.returncode != 0:
                raise ValueError(done.stderr.strip())
            told = (folder / "told").read_text(errors="replace")
        return [
            {**entry, "directory": str(path.parent)}
            for entry in json.loads(told)
            if Path(entry["file"]).suffix.lower() in SOURCE_SUFFIXES
        ]
    except (DeviceError, ValueError, RecursionError) as error:
        raise UsageError(f"ninja does not read {path}: {error}", hint="build the program again") from error
