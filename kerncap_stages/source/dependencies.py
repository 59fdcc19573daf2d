"""The exact set of local headers of a translation unit: the compiler's own answer under its own command."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.errors import DeviceError

if TYPE_CHECKING:
    from collections.abc import Sequence

_TIMEOUT_S = 300


def parse_make_rule(text: str) -> list[Path]:
    """The prerequisites of the first rule that a compiler's ``-M`` prints."""
    _, _, body = text.partition(": ")
    words: list[str] = [""]
    position = 0
    while position < len(body):
        if body.startswith("\\\n", position):
            words.append("")
            position += 2
        elif body[position] == "\\" and body[position + 1 : position + 2] in (" ", "#", "\\"):
            words[-1] += body[position + 1]
            position += 2
        elif body.startswith("$$", position):
            words[-1] += "$"
            position += 2
        elif body[position] in " \t":
            words.append("")
            position += 1
        elif body[position] == "\n":
            break
        else:
            words[-1] += body[position]
            position += 1
    return [Path(word) for word in words if word]


def toolchain_folders(compiler: str, directory: Path) -> tuple[Path, ...]:
    """The compiler's own include folders: headers below them belong to the toolchain, not to the project."""
    result = subprocess.run(
        [compiler, "-x", "hip", "--offload-device-only", "-E", "-v", os.devnull, "-o", os.devnull],
        cwd=directory,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=_TIMEOUT_S,
        check=False,
    )
    folders: list[Path] = []
    listing = False
    for line in result.stderr.splitlines():
        if line.startswith("#include "):
            listing = True
        elif line.startswith("End of search list"):
            listing = False
        elif listing and line.startswith(" "):
            folders.append(Path(line.strip()).resolve())
    return tuple(dict.fromkeys(folders))


def local_headers(
    compiler: str, flags: Sequence[str], unit: Path, directory: Path, target: str
) -> list[Path]:
    """Every file that ``unit`` includes, at any depth, except the toolchain's; absolute paths.

    Raises DeviceError with the compiler's words if the unit cannot be preprocessed under ``flags``.
    """
    # The driver ignores -M for one side of an offload compilation; the compiler proper does not.
    with tempfile.TemporaryDirectory(prefix="kerncap-headers-") as name:
        rule = Path(name) / "rule"
        listing = ["-dependency-file", str(rule), "-MT", "unit", "-sys-header-deps"]
        words = [
            compiler,
            "-x",
            "hip",
            f"--offload-arch={target}",
            "--offload-device-only",
            "-E",
            "-o",
            os.devnull,
        ]
        words += [each for word in listing for each in ("-Xclang", word)]
        try:
            result = subprocess.run(
                [*words, *flags, str(unit)],
                cwd=directory,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_TIMEOUT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise DeviceError(
                f"cannot run the compiler {compiler}: {error}", hint="pass --compiler"
            ) from error
        if result.returncode != 0 or not rule.exists():
            raise DeviceError(
                f"{unit} does not preprocess under its compile command:\n{result.stderr.strip()}",
                hint="check that the build folder is complete (generated headers?) and -D is right",
            )
        prerequisites = parse_make_rule(rule.read_text(encoding="utf-8", errors="surrogateescape"))
    own = toolchain_folders(compiler, directory)
    seen: dict[Path, None] = {}
    for prerequisite in prerequisites:
        path = Path(os.path.normpath(directory / prerequisite))
        places = (path, path.resolve())
        if path == unit or any(place.is_relative_to(folder) for folder in own for place in places):
            continue
        seen[path] = None
    return list(seen)
