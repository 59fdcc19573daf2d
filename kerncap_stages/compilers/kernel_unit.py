"""A unit that is compiled for the sake of one kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


@dataclass(frozen=True)
class KernelUnit:
    """A unit, how it is compiled, and the kernel's symbol in it, without the mark of a unit."""

    path: Path
    flags: Sequence[str]
    directory: Path
    target: str
    symbol: str
