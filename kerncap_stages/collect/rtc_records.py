"""Reads what the program compiled at run time: native/rtc records it there, a file for each action.

A program may be compiled in one action and linked in another. Each record has the code that went in and the
code that came out, so the digest of the captured code leads back to the source.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import ValidationError

from kerncap_stages.digest import Digest, FileRef
from kerncap_stages.manifests import describe_first_fault
from kerncap_stages.manifests.base import OsText, to_os_text
from kerncap_stages.manifests.rtc import RtcFile, RtcProgram

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from kerncap_stages.store import Transaction

_FOLDER = "KERNCAP_RTC_RECORDS"
_SWITCH = "KERNCAP_RTC"  # of the user: 0 leaves the library out
_HEADER = b"kerncap-rtc 1\n"
_FIELD = re.compile(rb"([a-z_]+) (\d{1,12})\n")
_IN_FILE = "_file"
_TEXT_FILE = re.compile(rb"[\d-]+\.text")
# Programs that keep what they compiled in files compile nothing in their next run, and nothing is recorded.
_NO_CACHES = {"CUPY_CACHE_IN_MEMORY": "1", "USE_PYTORCH_KERNEL_CACHE": "0"}


@dataclass(frozen=True)
class _Action:
    """A record that was read once. ``inputs``, ``outputs``: digests of code."""

    path: Path
    inputs: tuple[Digest, ...]
    outputs: tuple[Digest, ...]
    has_source: bool


class RtcRecords:
    """The records of one run, in a folder that the program's processes write to."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        self._actions: dict[Path, _Action] = {}
        self._problems: dict[str, None] = {}

    @staticmethod
    def is_wanted(program: Mapping[str, str]) -> bool:
        """Whether to record. ``program``: its environment."""
        return program.get(_SWITCH) != "0"

    def make_environment(self, program: Mapping[str, str]) -> dict[str, str]:
        """Return the variables with which the program's processes record what they compile."""
        if not self.is_wanted(program):
            return {}
        return {_FOLDER: str(self._folder), **{k: v for k, v in _NO_CACHES.items() if k not in program}}

    def find(self, codes: Sequence[Digest], transaction: Transaction) -> RtcProgram | None:
        """Return what one of these codes was compiled from, and store the texts.

        None if the program did not compile it, or if that cannot be told: ``read_errors`` then says why.
        """
        try:
            self._read_new_actions()
            found = list(self._find_compilations(codes))
            if len(found) > 1:
                self._problems[f"the captured code is linked from {len(found)} sources"] = None
            return _read_program(found[0], transaction) if len(found) == 1 else None
        # The program could write anything there, and its capture is whole without.
        except ValidationError as error:
            self._problems[describe_first_fault(error)] = None
        except (OSError, ValueError) as error:
            self._problems[f"{type(error).__name__}: {error}"] = None
        return None

    def read_errors(self) -> list[str]:
        """Return what could not be recorded or read, each a line."""
        try:
            lines = (self._folder / "errors").read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            lines = []
        return [*dict.fromkeys(lines), *self._problems]

    def _read_new_actions(self) -> None:
        for path in sorted(self._folder.glob("*.rtc")):
            if path not in self._actions:
                try:
                    self._actions[path] = _read_action(path)
                except ValueError as error:
                    self._actions[path] = _Action(path, (), (), has_source=False)
                    self._problems[str(error)] = None

    def _find_compilations(self, codes: Sequence[Digest]) -> Iterator[Path]:
        """Follow the code back through the actions that linked it; yields records that have a source."""
        made_by: dict[Digest, _Action] = {}
        for action in self._actions.values():
            for output in action.outputs:
                made_by.setdefault(output, action)  # the same code, compiled again
        remaining, seen = list(codes), set[_Action]()
        while remaining:
            made = made_by.get(remaining.pop())
            if made is None or made in seen:
                continue
            seen.add(made)
            if made.has_source:
                yield made.path
            else:
                remaining += made.inputs


def _read_action(path: Path) -> _Action:
    fields = list(_read_fields(path))
    inputs, outputs = (
        tuple(_digest(value) for name, value in fields if name == wanted) for wanted in ("input", "output")
    )
    return _Action(path, inputs, outputs, has_source=any(name.startswith("source") for name, _ in fields))


def _read_fields(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the fields of a record. Raises ValueError if it is not one."""
    data = path.read_bytes()
    if not data.startswith(_HEADER):
        raise ValueError(f"{path.name} is not a record of this version")
    at = len(_HEADER)
    while at < len(data):
        field = _FIELD.match(data, at)
        end = -1 if field is None else field.end() + int(field[2])
        if field is None or end >= len(data):
            raise ValueError(f"{path.name} is damaged")
        yield field[1].decode(), data[field.end() : end]
        at = end + 1


def _read_program(path: Path, transaction: Transaction) -> RtcProgram:
    texts: dict[str, list[RtcFile]] = {"source": [], "header": []}
    values: dict[str, list[OsText]] = {}
    name: OsText = ""
    for field, value in _read_fields(path):
        if field.endswith(_IN_FILE):
            field = field.removesuffix(_IN_FILE)
            value = _read_text(path.parent, value)
        if field in texts:
            reference = FileRef.to(transaction.put_bytes(value))
            texts[field].append(RtcFile(name=name, text=reference, size_bytes=len(value)))
        elif field == "name":
            name = _decode(value)
        elif field not in ("input", "output"):
            values.setdefault(field, []).append(_decode(value))
    if len(texts["source"]) != 1:
        raise ValueError(f"{path.name} has {len(texts['source'])} sources")
    options = values.pop("option", [])
    expressions = values.pop("name_expression", [])
    return RtcProgram.model_validate(
        {
            **{field: value[0] for field, value in values.items()},
            "source": texts["source"][0],
            "headers": tuple(texts["header"]),
            "options": tuple(options),
            "name_expressions": tuple(expressions),
        }
    )


def _read_text(folder: Path, name: bytes) -> bytes:
    """Read a text that several records share."""
    if not _TEXT_FILE.fullmatch(name):
        raise ValueError(f"a text is in {name!r}")
    return (folder / name.decode()).read_bytes()


def _decode(value: bytes) -> OsText:
    return to_os_text(os.fsdecode(value))


def _digest(value: bytes) -> Digest:
    return Digest(hashlib.sha256(value).hexdigest())
