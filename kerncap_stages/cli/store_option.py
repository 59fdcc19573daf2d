"""Names the store in commands that messages suggest."""

from __future__ import annotations

import re
import shlex
import sys
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

# Commands that take --store. "kc-capture's" and "kc-capture:" in a text do not count: they are not commands.
_WITH_STORE = (
    r"\bkc-(?:profile|capture|locate|generate|validate|evaluate|tune|replay|run|extract|show|store [a-z]+)\b"
    r"(?![-':])"
)

_project_store: list[str] = []


def name_project_store(root: Path | None) -> None:
    """Note the store of the project that is read, for ``add_store_option``; None: no project is read."""
    _project_store[:] = [] if root is None else [str(root)]


def add_store_option(text: str, typed: Sequence[str] | None = None) -> str:
    """Add the ``--store`` that the user typed to the commands that a text suggests.

    If a project is read, `kc-store check` gets that project's store: the damaged object is in there.

    typed: the words of the command line; if None, those of this process.
    """
    if _project_store and "--store" not in text:
        text = text.replace("`kc-store check", f"`kc-store check --store {shlex.quote(_project_store[0])}")
    words = sys.argv if typed is None else typed
    stores = [word.partition("=")[2] for word in words if word.startswith("--store=")]
    stores += [after for word, after in pairwise(words) if word == "--store"]
    if not stores or "--store" in text:
        return text
    option = f" --store {shlex.quote(stores[-1])}"
    return re.sub(_WITH_STORE, lambda found: found[0] + option, text)
