"""Made-up projects."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def write_record(folder: Path) -> None:
    """Write down that kc-generate made a folder with all the files that it holds now."""
    files = {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }
    record = {"schema_version": 1, "reproducer": "0" * 64, "kernels": [], "captures": [], "files": files}
    (folder / "capture").mkdir(exist_ok=True)
    (folder / "capture/project.json").write_text(json.dumps(record))
