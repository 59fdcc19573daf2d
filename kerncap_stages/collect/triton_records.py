"""Reads what the program's Triton kernels were compiled from: inside/kerncap_triton.py records it there."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from kerncap_stages import inside
from kerncap_stages.digest import FileRef
from kerncap_stages.errors import Refused
from kerncap_stages.inside.kerncap_triton import ERRORS, FOLDER, RECORD_SUFFIX
from kerncap_stages.manifests.base import to_os_text
from kerncap_stages.manifests.triton import TritonFunction, TritonKernel

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from kerncap_stages.digest import Digest
    from kerncap_stages.store import Transaction

_PYTHON_PATH = "PYTHONPATH"


class TritonRecords:
    """The records of one run, in a folder that the program's processes write to."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder

    def make_environment(self, program: Mapping[str, str]) -> dict[str, str]:
        """Return the variables that make the program's Python record its Triton kernels.

        program: its whole environment otherwise.
        """
        ours = str(Path(inside.__file__).parent)
        theirs = program.get(_PYTHON_PATH)
        return {
            FOLDER: str(self._folder),
            _PYTHON_PATH: os.pathsep.join([ours, theirs]) if theirs else ours,
        }

    def find(self, code_object: Digest, transaction: Transaction) -> TritonKernel | None:
        """Return what a code object was compiled from, and store the sources; None if Triton did not make it.

        Raises Refused if the record cannot be read.
        """
        path = self._folder / f"{code_object}{RECORD_SUFFIX}"
        try:
            record = json.loads(path.read_bytes())
            record |= {name: to_os_text(record[name]) for name in ("triton_folder", "python")}
            record["functions"] = [self._store_function(each, transaction) for each in record["functions"]]
            return TritonKernel.model_validate(record)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, ValidationError) as error:
            raise Refused(f"the record of a Triton kernel cannot be read: {error}") from error

    def read_errors(self) -> list[str]:
        """Return what could not be recorded, each a line."""
        try:
            text = (self._folder / ERRORS).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return []
        return list(dict.fromkeys(text.splitlines()))

    def _store_function(self, record: dict[str, Any], transaction: Transaction) -> TritonFunction:
        text = (self._folder / record.pop("file")).read_bytes()
        record["path"] = to_os_text(record["path"])
        source = FileRef.to(transaction.put_bytes(text))
        return TritonFunction.model_validate({**record, "source": source, "source_size_bytes": len(text)})
