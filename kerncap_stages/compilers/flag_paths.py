"""Paths in compile flags, which are relative to the folder that the compiler ran in."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

# Their file is looked for in the build's folder first, and then where quoted includes are.
_FORCED_INCLUDES = ("-include", "-imacros")


def absolute(value: str, directory: Path) -> str:
    """A path as it is from everywhere."""
    return os.path.normpath(directory / value)


def absolute_for(flag: str, value: str, directory: Path) -> str:
    """The path of a flag; the name of a forced include that the folders of other flags hold stays a name."""
    searched = flag in _FORCED_INCLUDES and not (directory / value).exists()
    return value if searched else absolute(value, directory)
