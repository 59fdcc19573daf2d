"""Reads what the program's Triton kernels were compiled from: inside/kerncap_triton.py records it there."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from kerncap_stages import inside
from kerncap_stages.collect.triton_configurations import find_configuration, read_configurations
from kerncap_stages.collect.triton_launches import read_calls
from kerncap_stages.digest import FileRef
from kerncap_stages.inside.kerncap_triton.files import (
    BOTH,
    BRIEF,
    ERRORS,
    FOLDER,
    RECORD,
    RECORD_SUFFIX,
    WHOLE,
)
from kerncap_stages.inside.kerncap_triton.launches import RULES
from kerncap_stages.inside.kerncap_triton.libraries import LIBRARIES
from kerncap_stages.inside.kerncap_triton.trials import TRIALS
from kerncap_stages.manifests import describe_first_fault
from kerncap_stages.manifests.base import to_os_text
from kerncap_stages.manifests.triton import TritonFunction, TritonKernel

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from kerncap_stages.collect.triton_configurations import CodeKey
    from kerncap_stages.digest import Digest
    from kerncap_stages.manifests.capture import Selection
    from kerncap_stages.manifests.triton import TritonConfiguration
    from kerncap_stages.store import Transaction

_PYTHON_PATH = "PYTHONPATH"
_FILE = re.compile(r"[0-9a-f]{64}\.(py|ptx)")


class TritonRecords:
    """The records of one run, in a folder that the program's processes write to."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        self._unread = ""

    def make_environment(
        self,
        program: Mapping[str, str],
        libraries: Sequence[Path] = (),
        *,
        selections: Sequence[Selection] = (),
        whole: bool = True,
        by_configuration: bool = False,
        tell_trials: bool = True,
    ) -> dict[str, str]:
        """Return the variables that make the program's Python record its Triton kernels.

        program: its whole environment otherwise. libraries: the capture libraries, one of which the program
        loads. selections: which kernels' launches are recorded. whole: kernels are recorded so
        that they can be compiled again, not only told from each other. by_configuration: both.
        tell_trials: the capture library is told of an autotuner's trials.
        """
        rules = [(each.match.value, each.pattern or "", each.grid_blocks) for each in selections]
        ours = str(Path(inside.__file__).parent)
        theirs = program.get(_PYTHON_PATH)
        return {
            FOLDER: str(self._folder),
            RECORD: BOTH if by_configuration else WHOLE if whole else BRIEF,
            LIBRARIES: "\n".join(map(str, libraries)),
            TRIALS: "1" if tell_trials else "",
            RULES: json.dumps(rules),
            _PYTHON_PATH: os.pathsep.join([ours, theirs]) if theirs else ours,
        }

    def find(self, code_object: Digest, transaction: Transaction) -> TritonKernel | None:
        """Return what a code object was compiled from, and store the sources.

        None if Triton did not make it, or if its record cannot be read: ``read_errors`` then says so.
        """
        path = self._folder / f"{code_object}{RECORD_SUFFIX}"
        if not path.exists():
            return None
        try:
            record = json.loads(path.read_bytes())
            record |= {name: to_os_text(record[name]) for name in ("triton_folder", "python")}
            record["functions"] = [self._store_function(each, transaction) for each in record["functions"]]
            if record["ptx"] is not None:
                record["ptx"] = FileRef.to(transaction.put_bytes(self._read(record["ptx"])))
            return TritonKernel.model_validate(record)
        # The program could write anything there, and its capture is whole without.
        except ValidationError as error:
            self._unread = describe_first_fault(error)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            self._unread = f"{type(error).__name__}: {error}"
        return None

    def read_calls(self, process_id: int) -> list[dict[str, Any]]:
        """Return the launches in Python that a process has recorded, the latest first."""
        return read_calls(self._folder, process_id)

    def read_configurations(self) -> dict[CodeKey, dict[str, Any]]:
        """Return what a profile tells of kernels, by their names and the checksums of their code objects."""
        return read_configurations(self._folder)

    def find_configuration(self, symbol: str, checksum: int) -> TritonConfiguration | None:
        """Return what a code object was compiled with; None if it is not known."""
        return find_configuration(self._folder, symbol, checksum)

    def read_errors(self) -> list[str]:
        """Return what could not be recorded or read, each a line."""
        try:
            lines = (self._folder / ERRORS).read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            lines = []
        unread = [f"the captured kernel's record cannot be read: {self._unread}"] if self._unread else []
        return [*dict.fromkeys(lines), *unread]

    def _store_function(self, record: dict[str, Any], transaction: Transaction) -> TritonFunction:
        text = self._read(record.pop("file"))
        record["path"] = to_os_text(record["path"])
        source = FileRef.to(transaction.put_bytes(text))
        return TritonFunction.model_validate({**record, "source": source, "source_size_bytes": len(text)})

    def _read(self, name: str) -> bytes:
        if not _FILE.fullmatch(name):
            raise ValueError(f"a file is named {name!r}")
        return (self._folder / name).read_bytes()
