"""The contents of a wheel for other machines: add the licences of its libraries, and check the rest."""

from __future__ import annotations

import os
import re
import subprocess
import zipfile
from email import message_from_string
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

# Libraries of the system that the wheel contains. Only the stages use them.
BROUGHT = ("libcrypto", "libzstd")
REPLAYERS = ("kc-replay-cuda", "kc-replay-hsa")
IN_PROGRAMS = ("libkerncap_cuda.so", "libkerncap_hsa.so", "libkerncap_rtc.so", "libkerncap_softgpu.so")
LICENCE = "MIT"
LICENCE_WITH_BROUGHT = "MIT AND Apache-2.0 AND BSD-3-Clause"


def add_licences(wheel: Path, texts: Mapping[str, Path], work: Path, call: Callable[..., None]) -> None:
    """Add the licences of the libraries in the wheel, and name them in its metadata."""
    call("wheel", "unpack", "--dest", work / "unpacked", wheel)
    (content,) = (work / "unpacked").iterdir()
    (metadata,) = content.glob("*.dist-info/METADATA")
    for name, source in texts.items():
        (metadata.parent / "licenses" / name).write_bytes(source.read_bytes())
    named = "".join(f"License-File: {name}\n" for name in texts)
    text = metadata.read_text(encoding="utf-8")
    before, after = (f"License-Expression: {licence}\n" for licence in (LICENCE, LICENCE_WITH_BROUGHT))
    text = text.replace(before, after, 1)
    text = text.replace("License-File: LICENSE\n", f"License-File: LICENSE\n{named}", 1)
    metadata.write_text(text, encoding="utf-8")
    wheel.unlink()
    call("wheel", "pack", "--dest-dir", wheel.parent, content)


def faults(wheel: Path, folder: Path, builders: Iterable[Path]) -> list[str]:
    """Unpack a wheel to ``folder``, and list its faults, such as missing files or paths in ``builders``."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/")]
        archive.extractall(folder)
    found = [f"bytecode: {name}" for name in names if name.endswith(".pyc")]
    for name in names:
        if ".libs/" in name and not Path(name).name.startswith(BROUGHT):
            found.append(f"a library that is not meant to be brought: {name}")
        content = (folder / name).read_bytes()
        found += [f"a path of the machine that built it: {name} names {place}" for place in builders
                  if os.fsencode(f"{place}/") in content]  # fmt: skip
    return [*found, *_metadata_faults(names, folder), *_library_faults(folder / "kerncap_stages/lib")]


def _metadata_faults(names: list[str], folder: Path) -> list[str]:
    (metadata,) = folder.glob("*.dist-info/METADATA")
    fields = message_from_string(metadata.read_text(encoding="utf-8"))
    wanted = ("Summary", "Author", "Requires-Python", "Requires-Dist")
    found = [f"no {field} in its metadata" for field in wanted if not fields.get(field)]
    if fields["License-Expression"] != LICENCE_WITH_BROUGHT:
        found.append(f"its licence is said to be {fields['License-Expression']}")
    for name in fields.get_all("License-File", []):
        if f"{metadata.parent.name}/licenses/{name}" not in names:
            found.append(f"no text of the licence {name}")
    return found


def _library_faults(libraries: Path) -> list[str]:
    found = []
    for name in (*IN_PROGRAMS, *REPLAYERS):
        if not (libraries / name).exists():
            found.append(f"no {name}")
            continue
        command = ["readelf", "-dW", libraries / name]
        needed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        if name in IN_PROGRAMS and any(library in needed for library in BROUGHT):
            found.append(f"{name} is loaded into programs and must not need {BROUGHT}")
        # auditwheel renames the libraries that it adds: libcrypto-HASH.so.3
        if name in REPLAYERS and not all(f"[{library}-" in needed for library in BROUGHT):
            found.append(f"{name} does not use the libraries that the wheel brings")
        for path in re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", needed):
            if not all(part.startswith("$ORIGIN") for part in path.split(":")):
                found.append(f"{name} looks for libraries in {path}")
    return found
