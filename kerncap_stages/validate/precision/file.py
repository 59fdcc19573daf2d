"""Reads the user's reference: a Python file whose function computes the true outputs of a kernel.

The file is only parsed here. ``precision.process`` runs it.
"""

from __future__ import annotations

import ast
import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kerncap_stages.digest import Digest
from kerncap_stages.errors import UsageError
from kerncap_stages.text.terminal import make_printable

if TYPE_CHECKING:
    from pathlib import Path

FUNCTION = "reference"
_MAX_BYTES = 1 << 20
_SHAPE = f'define `def {FUNCTION}(args): ... return {{"OUTPUT": values}}`; docs/edit-loop.md has an example'


@dataclass(frozen=True)
class ReferenceFile:
    """A reference. ``name``: the file's, without its folder, for messages. text: its contents."""

    name: str
    text: str

    @property
    def payload(self) -> bytes:
        """The bytes of the file."""
        return self.text.encode()

    @property
    def digest(self) -> Digest:
        """The file's SHA-256."""
        return Digest(hashlib.sha256(self.payload).hexdigest())


def read_reference(path: Path) -> ReferenceFile:
    """Read and parse a reference.

    Raises UsageError for a file that cannot be read, is not Python, or has no function ``reference``.
    """
    name = make_printable(str(path))
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise UsageError(f"--reference {name}: larger than 1 MiB", hint=_SHAPE)
        text = path.read_bytes().decode()
    except OSError as error:
        raise UsageError(f"--reference {name}: {error.strerror}", hint="name a Python file") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"--reference {name}: not UTF-8 text", hint="name a Python file") from error
    try:
        tree = ast.parse(text, name)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None)
        where = name if line is None else f"{name}:{line}"
        raise UsageError(
            f"{where}: not Python: {getattr(error, 'msg', None) or error}", hint="correct the file"
        ) from error
    if not any(isinstance(each, ast.FunctionDef) and each.name == FUNCTION for each in tree.body):
        raise UsageError(f"{name}: has no function `{FUNCTION}`", hint=_SHAPE)
    return ReferenceFile(make_printable(path.name), text)
