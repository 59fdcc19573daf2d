"""Kernels of a study: where they are in the program's source, and the edits of each."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Edit:
    """Replaces ``old``, where it first stands behind ``after``. ``values`` fill {n} of ``new`` in turn."""

    says: str
    after: str
    old: str
    new: str
    values: tuple[int, ...] = (0,)

    def apply(self, text: str, turn: int = 0) -> str:
        """Return the edited text. Raises ValueError if the source does not hold what is replaced."""
        start = text.index(self.old, text.index(self.after))
        new = self.new.replace("{n}", str(self.values[turn % len(self.values)]))
        return text[:start] + new + text[start + len(self.old) :]

    def describe(self, turn: int = 0) -> str:
        """Say what the edit does."""
        return self.says.replace("{n}", str(self.values[turn % len(self.values)]))


@dataclass(frozen=True)
class Kernel:
    """A kernel: part of its name, the program that runs it, the file that is edited, and two edits."""

    key: str
    pattern: str
    file: str  # below the study's folder of files that are edited
    right: Edit
    wrong: Edit
    program: str
    builds: int = 3  # how often the program's own build is measured
    operator: str = ""  # what the program's own tests call it
