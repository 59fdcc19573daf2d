"""What the last winner changed in a project, so that the next one takes its place: ``tune/applied.json``."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

FOLDER = "tune"  # in the project
NAME = f"{FOLDER}/applied.json"


@dataclass(frozen=True)
class Applied:
    """``added``: by the name of a file of flags, the text that was added to its end."""

    added: dict[str, str] = field(default_factory=dict)

    def remove_from(self, name: str, content: bytes) -> bytes:
        """Return a file without what was added; as it is, if the user has changed that end since."""
        added = self.added.get(name, "").encode(errors="surrogateescape")
        return content[: len(content) - len(added)] if added and content.endswith(added) else content

    def dump(self) -> bytes:
        """Return it as the file holds it."""
        return json.dumps({"added": self.added}, indent=1).encode("ascii") + b"\n"


def read_applied(project: Path) -> Applied:
    """Read the file; nothing was added if there is none, or if it holds something else."""
    try:
        added = json.loads((project / NAME).read_text())["added"]
        return Applied({str(name): str(text) for name, text in added.items()})
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return Applied()
