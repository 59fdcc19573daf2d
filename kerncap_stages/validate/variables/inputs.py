"""Finds the module variables that are inputs: what the program has set, and the kernel only reads.

Such a variable is a part of its code object's memory. It is described as a region of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kerncap_stages.code.code_object import read_initial
from kerncap_stages.code.cubin_links import Links
from kerncap_stages.code.file_format import FileFormat, find_format
from kerncap_stages.errors import ArtifactError
from kerncap_stages.manifests.memory import MemoryKind, Region
from kerncap_stages.replay.cuda_code import DAMAGE
from kerncap_stages.replay.plan import find_own_code
from kerncap_stages.validate.perturb.address_ranges import find_captured_ranges
from kerncap_stages.validate.perturb.start import find_around

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.memory import ModuleVariable
    from kerncap_stages.store import Store
    from kerncap_stages.validate.perturb.address_ranges import AddressRanges

_MAX_BYTES = 64 << 20  # of the memory around a variable: it is stored again for each state
_NOT_SET = ("__hip_cuid_", "__unnamed_")  # clang's own


def find_input_variables(store: Store, capture: Capture) -> list[Region]:
    """Return the variables that are inputs, each as a region.

    Constants that hold what their code object gives them are its code's own: a variant may have others.
    """
    ranges = find_captured_ranges(capture)
    found = []
    for variable in _list_read(capture):
        content = bytes(store.read_memory(variable.pre.digest)) if variable.pre is not None else b""
        if not _holds_addresses_alone(content, ranges) and _is_set(store, capture, variable, content):
            region = _describe(capture, variable)
            if region is not None:
                found.append(region)
    return found


def _list_read(capture: Capture) -> Iterator[ModuleVariable]:
    """Yield the variables of the kernel's code object that the captured kernel did not change."""
    for variable in capture.module_variables:
        is_own = variable.code_object == capture.code_digest and not variable.symbol.startswith(_NOT_SET)
        is_read = variable.pre is not None and variable.post in (None, variable.pre)
        if is_own and is_read and variable.size_bytes > 0:
            yield variable


def _describe(capture: Capture, variable: ModuleVariable) -> Region | None:
    end = variable.address + variable.size_bytes
    around = next(
        (each for each in capture.regions if each.contains(variable.address) and end <= each.end_address),
        None,
    )
    if around is None or around.pre is None or around.read_only or around.kind is not MemoryKind.CODE_OBJECT:
        return None
    states = {name: getattr(variable, name) for name in ("pre", "post", "written", "written_size_bytes")}
    where = {"base_address": variable.address, "size_bytes": variable.size_bytes}
    return around.model_copy(update=states | where)


def is_in_large_memory(capture: Capture, variable: Region) -> bool:
    """Whether the memory around a variable is too large to be stored again for each state."""
    return find_around(capture, variable).size_bytes > _MAX_BYTES


def _is_set(store: Store, capture: Capture, variable: ModuleVariable, content: bytes) -> bool:
    """Whether a variable holds something else than its code object gives it, or has no value there."""
    code = store.get_kept(capture.code_digest)
    own = find_own_code(capture)
    try:
        if own is not None:
            offset = variable.address - own.load_address
            initial = read_initial(code, offset, variable.size_bytes)
        elif find_format(code) is FileFormat.CUBIN:
            initial = Links(code).read_initial(variable.symbol)
        else:
            return False
    except (ArtifactError, KeyError, *DAMAGE):
        return False
    return initial is not None and (content != initial or not any(initial))


def _holds_addresses_alone(content: bytes, ranges: AddressRanges) -> bool:
    words = np.frombuffer(content[: len(content) // 8 * 8], np.uint64)
    numbers = ranges.find_addresses(words)
    return numbers.size > 0 and numbers.size == np.count_nonzero(words)


def name_variable(capture: Capture, address: int) -> str:
    """Return the symbol of the variable of the kernel's code object at this address."""
    return next(
        each.symbol
        for each in capture.module_variables
        if each.address == address and each.code_object == capture.code_digest
    )
