"""Writes the captured call into a Triton project: `reproducer.py --run` launches the kernel with it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kerncap_stages.generate.triton_values import is_plain
from kerncap_stages.text.triton_types import read_types

if TYPE_CHECKING:
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.memory import Region
    from kerncap_stages.manifests.triton import TritonArgument

MEMORY = "captured_memory.py"
_ELEMENT = re.compile(r"(?:\*k?|tensordesc<)((?:fp|bf|i|u)\d+(?:e\d\w*)?)(?![\w])")


@dataclass(frozen=True)
class TritonCall:
    """The arguments as Python, by their names, and the memory that they point to; or why there is no call."""

    arguments: dict[str, str] | None = None
    regions: list[str] = field(default_factory=list)
    not_run: str = ""


def write_call(capture: Capture) -> TritonCall:
    """Write the arguments of the captured launch; tensors by their addresses in the program."""
    call, triton = capture.launch.triton, capture.kernel.triton
    if call is None or triton is None:
        return TritonCall(not_run="the call that launched it was not recorded")
    types = _list_types(dict(triton.signature))
    arguments: dict[str, str] = {}
    used: dict[int, Region] = {}
    for argument in call.arguments:
        tensor = argument.tensor
        if tensor is None:
            if argument.unknown is not None or not is_plain(argument.text):
                return TritonCall(not_run=f"the argument {argument.name} was not recorded")
            arguments[argument.name] = argument.text
            continue
        region = next((each for each in capture.regions if each.contains(tensor.address)), None)
        element = _ELEMENT.match(types.get(argument.name, ""))
        if region is None or region.pre is None or region.post is None or element is None:
            return TritonCall(not_run=f"the memory of {argument.name} was not captured")
        used[region.base_address] = region
        arguments[argument.name] = _write_tensor(argument, element[1], region)
    regions = [
        repr((each.base_address, each.size_bytes, str(each.pre), str(each.post)))
        for _, each in sorted(used.items())
    ]
    return TritonCall(arguments, regions)


def _list_types(signature: dict[str, str]) -> dict[str, str]:
    """Return Triton's types by the arguments' names: those of a tuple's elements, too."""
    types: dict[str, str] = {}
    waiting = [(name, read_types(text)) for name, text in signature.items()]
    while waiting:
        name, kind = waiting.pop()
        if isinstance(kind, str):
            types[name] = kind
        elif isinstance(kind, (tuple, list)):
            waiting += [(f"{name}[{place}]", each) for place, each in enumerate(kind)]
    return types


def _write_tensor(argument: TritonArgument, element: str, region: Region) -> str:
    tensor = argument.tensor
    assert tensor is not None
    shape, strides = tensor.shape, tensor.strides
    if shape is None:  # all that lies behind it
        size = max(int("".join(re.findall(r"\d+", element)[:1])) // 8, 1)
        shape = ((region.base_address + region.size_bytes - tensor.address) // size,)
        strides = (1,)
    if strides is None:
        strides = _make_contiguous(shape)
    block = "" if argument.block_shape is None else f", {argument.block_shape!r}"
    return f"Tensor({tensor.address:#x}, {element!r}, {shape!r}, {strides!r}{block})"


def _make_contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides, size = [], 1
    for extent in reversed(shape):
        strides.append(size)
        size *= extent
    return tuple(reversed(strides))
