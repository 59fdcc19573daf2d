"""Finds the Python call of a captured dispatch among those that kerncap_triton recorded in the program.

A launch has no number that Python and the device both know. So the call is found by what it passed: the
captured arguments hold the same addresses and values.
"""

from __future__ import annotations

import json
import math
import struct
from typing import TYPE_CHECKING

from kerncap_stages.inside.kerncap_triton.files import LAUNCH_PREFIX, RECORD_SUFFIX
from kerncap_stages.manifests.triton import TritonLaunch

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path
    from typing import Any

    from kerncap_stages.digest import Digest
    from kerncap_stages.manifests.base import Dim3
    from kerncap_stages.manifests.kernel import KernargSlot
    from kerncap_stages.manifests.triton import TritonArgument

_POINTER_BYTES = 8
_FLOATS = {4: "<f", 8: "<d"}


def read_calls(folder: Path, process_id: int) -> list[dict[str, Any]]:
    """Return the calls that a process has recorded, the latest first. What cannot be read is left out."""
    calls = []
    for path in folder.glob(f"{LAUNCH_PREFIX}{process_id}-*{RECORD_SUFFIX}"):
        try:
            call = json.loads(path.read_bytes())
            calls.append((int(call["number"]), call))
        except (OSError, ValueError, KeyError, TypeError, RecursionError):  # the program may write there
            continue
    return [call for _, call in sorted(calls, key=lambda numbered: -numbered[0])]


def find_call(
    calls: Iterable[dict[str, Any]],
    code_object: Digest,
    grid_blocks: Dim3,
    slots: Sequence[KernargSlot],
    kernarg: bytes,
) -> TritonLaunch | None:
    """Return the latest call that passed what a dispatch was given; None if there is none."""
    for call in calls:
        if call.get("code_object") != code_object:
            continue
        try:
            launch = TritonLaunch.model_validate({
                "grid_programs": call["grid_programs"], "arguments": call["arguments"],
            })  # fmt: skip
            if launch.grid_programs == tuple(grid_blocks) and _fits(launch.arguments, slots, kernarg):
                return launch
        except (ValueError, KeyError):
            continue
    return None


def _fits(arguments: Sequence[TritonArgument], slots: Sequence[KernargSlot], kernarg: bytes) -> bool:
    explicit = [slot for slot in slots if not slot.is_hidden]
    if any(argument.type_name == "descriptor" for argument in arguments) or len(explicit) < len(arguments):
        return _has_pointers(arguments, kernarg)  # a descriptor becomes several arguments
    return all(
        _is_passed(argument, kernarg[slot.offset_bytes : slot.offset_bytes + slot.size_bytes])
        for argument, slot in zip(arguments, explicit, strict=False)  # Triton adds arguments of its own
    )


def _is_passed(argument: TritonArgument, raw: bytes) -> bool:
    """Whether a captured argument has the value that the call gave; true for what cannot be compared."""
    passed = int.from_bytes(raw, "little")
    if argument.tensor is not None:
        return passed == argument.tensor.address
    if argument.type_name == "bool":
        return passed == (argument.text == "True")
    if argument.type_name == "float":
        return _is_float(float(argument.text.removeprefix("float('").removesuffix("')")), raw)
    if argument.type_name == "int":  # a parameter that is annotated as a float takes one, too
        value = int(argument.text)
        return value & ((1 << 8 * len(raw)) - 1) == passed or (len(raw) in _FLOATS and _is_float(value, raw))
    return True


def _is_float(value: float, raw: bytes) -> bool:
    layout = _FLOATS.get(len(raw))
    if layout is None or math.isnan(value):
        return True
    try:
        return struct.pack(layout, value) == raw
    except OverflowError:  # Triton passes infinity
        return True


def _has_pointers(arguments: Sequence[TritonArgument], kernarg: bytes) -> bool:
    """Whether the tensors' addresses are among the captured arguments, in their order."""
    at = 0
    for argument in arguments:
        if argument.tensor is None or argument.type_name == "descriptor":
            continue
        wanted = argument.tensor.address.to_bytes(_POINTER_BYTES, "little")
        places = range(at, len(kernarg), _POINTER_BYTES)
        place = next((each for each in places if kernarg[each : each + _POINTER_BYTES] == wanted), None)
        if place is None:
            return False
        at = place + _POINTER_BYTES
    return True
