"""The process that runs a reference: ``python -m kerncap_stages.validate.precision.child FOLDER PARENT``.

FOLDER holds ``job.json``, as ``process`` wrote it. The process reads the captured memory from the store, as
far as the reference asks for it, and writes ``result.json`` and a ``.npy`` file for each output. Of an error
in the user's file it writes what and where; the other process makes a message of it.
"""

from __future__ import annotations

import ctypes
import json
import linecache
import os
import signal
import sys
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kerncap_stages.digest import Digest, MemoryRef
from kerncap_stages.store import Store
from kerncap_stages.validate.compare.bounds import FLOAT_TYPES
from kerncap_stages.validate.compare.elements import find_dtype
from kerncap_stages.validate.precision.file import FUNCTION
from kerncap_stages.validate.precision.given import View

if TYPE_CHECKING:
    from collections.abc import Sequence

JOB, RESULT = "job.json", "result.json"
_SET_DEATH_SIGNAL = 1  # prctl's PR_SET_PDEATHSIG


class Arguments(Mapping[Any, Any]):
    """The kernel's arguments by name or number. Floats are fp64, whatever their type in memory is.

    grid_blocks, block_work_items: the captured launch.
    """

    def __init__(self, job: Mapping[str, Any]) -> None:
        self._store = Store.open(Path(job["store"]), create=False)
        self._given: Sequence[Mapping[str, Any]] = job["arguments"]
        self._made: dict[int, Any] = {}
        self.grid_blocks = tuple(job["grid_blocks"])
        self.block_work_items = tuple(job["block_work_items"])

    def __getitem__(self, key: object) -> Any:
        place = self.find(key)
        if place is None:
            raise KeyError(f"{key!r}; the arguments are {self.describe()}")
        if place not in self._made:
            self._made[place] = self._make(self._given[place])
        return self._made[place]

    def __iter__(self) -> Iterator[Any]:
        return (each["name"] or each["number"] for each in self._given)

    def __len__(self) -> int:
        return len(self._given)

    def find(self, key: object) -> int | None:
        """Return the place of an argument by its name or its number."""
        member = "name" if isinstance(key, str) else "number"
        places = (i for i, each in enumerate(self._given) if key is not None and each[member] == key)
        return next(places, None)

    def describe(self) -> str:
        """List the arguments for people."""
        return ", ".join(
            each["label"] if each["number"] is None else f"{each['number']}: {each['label']}"
            for each in self._given
        )

    def _make(self, given: Mapping[str, Any]) -> Any:
        if "view" in given:
            members = given["view"]
            shape = members["shape"]
            view = View(
                **{
                    **members,
                    "shape": None if shape is None else tuple(shape),
                    "strides": tuple(members["strides"]),
                }
            )
            values = view.read(self._store, MemoryRef.to(Digest(given["memory"])))
            return values.astype(np.float64) if view.element_type in FLOAT_TYPES else values.copy()
        if "value" in given:
            data, kind = np.frombuffer(bytes.fromhex(given["value"]), np.uint8), given["value_type"]
            if kind is None:
                return data.copy()
            numbers = data.view(find_dtype(kind))
            numbers = numbers.astype(np.float64) if kind in FLOAT_TYPES else numbers.copy()
            return numbers[0].item() if numbers.size == 1 else numbers
        return given["plain"]


class _Wrong(Exception):  # noqa: N818 - what is wrong with a result
    """A result that is no use."""


def _compute(job: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    name, text = job["name"], job["text"]
    # The file may not exist here, and tracebacks shall show its lines.
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    names: dict[str, Any] = {"__name__": "reference", "__file__": name}
    exec(compile(text, name, "exec", dont_inherit=True), names)  # noqa: S102 - the user asked for it
    arguments = Arguments(job)
    function = names[FUNCTION]
    line = getattr(getattr(function, "__code__", None), "co_firstlineno", None)
    try:
        return {"outputs": _write_outputs(function(arguments), arguments, folder)}
    except _Wrong as wrong:
        return {"error": {"line": line, "text": str(wrong)}}


def _write_outputs(made: object, arguments: Arguments, folder: Path) -> list[dict[str, Any]]:
    if not isinstance(made, Mapping) or not made:
        raise _Wrong(
            f"`{FUNCTION}` returned {_name(made)}, not a dict of outputs: the name or number of an argument, "
            f"and its true values"
        )
    written: list[dict[str, Any]] = []
    for key, value in made.items():
        place = arguments.find(key)
        if place is None:
            raise _Wrong(
                f"`{FUNCTION}` returned {key!r}, which is no argument; "
                f"the arguments are {arguments.describe()}"
            )
        try:
            values = np.asarray(value)
        except Exception as error:
            raise _Wrong(f"`{FUNCTION}` returned {_name(value)} for {key!r}, which is no array") from error
        if values.dtype.kind in "iub":
            values = values.astype(np.float64)
        if values.dtype.kind != "f" or values.dtype.itemsize < 8:
            raise _Wrong(
                f"`{FUNCTION}` returned {values.dtype} for {key!r}: compute in np.float64, or np.longdouble, "
                "whatever type the output has"
            )
        file = f"output-{len(written)}.npy"
        np.save(folder / file, np.ascontiguousarray(values), allow_pickle=False)
        written.append({"place": place, "file": file})
    return written


def _name(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


def _explain(error: BaseException, name: str) -> dict[str, Any]:
    """Tell an error, and the last line of the user's file that led to it."""
    frames = traceback.extract_tb(error.__traceback__)
    line = next((frame.lineno for frame in reversed(frames) if frame.filename == name), None)
    if isinstance(error, SystemExit):
        return {"line": line, "text": f"ended the process (exit code {error.code!r}) before it gave outputs"}
    what = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    return {"line": line, "text": type(error).__name__ + (f": {what}" if what else "")}


def main(folder: Path, parent: int) -> None:
    """Run the reference of a job. ``parent``: the process that wants it."""
    ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:  # it was killed before that
        return
    job = json.loads((folder / JOB).read_bytes())
    try:
        result = _compute(job, folder)
    except BaseException as error:
        result = {"error": _explain(error, job["name"])}
    temporary = folder / f"{RESULT}.new"
    temporary.write_text(json.dumps(result))
    temporary.rename(folder / RESULT)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
