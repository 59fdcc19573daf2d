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
    """``added``: by the name of a file of flags, the text that was added to its end, as it then was."""

    added: dict[str, str] = field(default_factory=dict)

    def remove_from(self, name: str, content: bytes) -> bytes:
        """Return a file without what was added, also if the user added more behind it.

        It stays as it is if the user has changed what was added.
        """
        added = self.added.get(name, "").encode(errors="surrogateescape")
        place = content.rfind(added) if added else -1
        is_whole = place == 0 or content[place - 1 : place].isspace() or content.endswith(added)
        return content[:place] + content[place + len(added) :] if place >= 0 and is_whole else content

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
