"""Makes paths in compile flags absolute: they are relative to the folder in which the compiler ran."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

# The compiler searches their file first in the build's folder, then like a quoted include.
_FORCED_INCLUDES = ("-include", "-imacros")


def make_absolute(value: str, directory: Path) -> str:
    """Make a path absolute."""
    return os.path.normpath(directory / value)


def make_absolute_for(flag: str, value: str, directory: Path) -> str:
    """Make the path of a flag absolute, except a forced include that is not in the build's folder."""
    searched = flag in _FORCED_INCLUDES and not (directory / value).exists()
    return value if searched else make_absolute(value, directory)
