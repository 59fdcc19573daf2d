"""Lists what a reference gets: the kernel's arguments, as arrays of captured memory or as numbers."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from kerncap_stages.code.element_types import find_element_type
from kerncap_stages.code.structs import find_size
from kerncap_stages.locate.argument_layouts import find_argument_types, list_explicit_slots
from kerncap_stages.store.chunks import read_range
from kerncap_stages.validate.arguments.values import read_value
from kerncap_stages.validate.compare.elements import find_dtype

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy.typing as npt

    from kerncap_stages.digest import MemoryRef
    from kerncap_stages.manifests import ReadsObjects
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.source import Source
    from kerncap_stages.manifests.triton import TritonLaunch, TritonTensor
    from kerncap_stages.validate.arguments import Pointer

_NAMED_FLOAT = re.compile(r"float\('(-?inf|nan)'\)")
_COERCED = ".coerce"  # LLVM's suffix of a parameter whose pointer it made one to global memory


@dataclass(frozen=True)
class View:
    """Elements of a captured region: all from ``start`` on, or those of a tensor.

    start, end: in bytes from the region's base. element_type: None for bytes. strides: in elements.
    """

    base_address: int
    start: int
    end: int
    element_type: str | None
    shape: tuple[int, ...] | None = None
    strides: tuple[int, ...] = ()

    @property
    def item_bytes(self) -> int:
        """The size of an element."""
        return find_size(self.element_type) if self.element_type is not None else 1

    @property
    def elements(self) -> int:
        """How many elements there are."""
        return (
            int(np.prod(self.shape)) if self.shape is not None else (self.end - self.start) // self.item_bytes
        )

    def read(self, store: ReadsObjects, memory: MemoryRef, count: int | None = None) -> npt.NDArray[Any]:
        """Read the elements in a state of the region, in the type that they have there.

        count: of a view without a shape, only so many.
        """
        dtype = find_dtype(self.element_type or "uint8")
        elements = self.elements if count is None else count
        if self.shape is None:
            end = self.start + elements * dtype.itemsize
        else:
            end = self.start + _measure_extent(self.shape, self.strides) * dtype.itemsize
        flat = read_range(store, memory, self.start, end).view(dtype)
        if self.shape is None:
            return flat
        strides = [stride * dtype.itemsize for stride in self.strides]
        return np.lib.stride_tricks.as_strided(flat, self.shape, strides)

    def find_offset(self, place: int) -> int:
        """Return where an element is, in bytes from the first one. ``place``: in the order of the array."""
        if self.shape is None:
            return place * self.item_bytes
        at = np.unravel_index(place, self.shape)
        return sum(int(i) * stride for i, stride in zip(at, self.strides, strict=True)) * self.item_bytes

    def mark(self, count: int) -> npt.NDArray[np.bool_]:
        """Mark the bytes of the first ``count`` elements, bool[end - start]."""
        marked = np.zeros(self.end - self.start, np.bool_)
        if self.shape is None:
            marked[: count * self.item_bytes] = True
            return marked
        whole = marked[: marked.size // self.item_bytes * self.item_bytes].reshape(-1, self.item_bytes)
        strides = (*(stride * self.item_bytes for stride in self.strides), 1)
        np.lib.stride_tricks.as_strided(whole, (*self.shape, self.item_bytes), strides)[...] = True
        return marked


@dataclass(frozen=True)
class Given:
    """An argument: memory, or a value. ``label``: for people.

    number: from 0, as the kernel's source counts them; None: it has a name only.
    value: the bytes of an argument that is no pointer, with the type of the numbers in them; or plain
    Python, of a Triton kernel.
    """

    number: int | None
    name: str | None
    label: str
    view: View | None = None
    value: bytes | None = None
    value_type: str | None = None
    plain: object = None
    is_const: bool = False

    def describe(self, pre_states: Mapping[int, MemoryRef]) -> dict[str, Any]:
        """Describe it for the process that runs the reference, with the memory of a state, as JSON."""
        described: dict[str, Any] = {"number": self.number, "name": self.name, "label": self.label}
        if self.view is not None and self.view.base_address in pre_states:
            members = {"start", "end", "element_type", "shape", "strides", "base_address"}
            view = {name: getattr(self.view, name) for name in members}
            return described | {"view": view, "memory": str(pre_states[self.view.base_address].digest)}
        if self.value is not None:
            return described | {"value": self.value.hex(), "value_type": self.value_type}
        return described | {"plain": self.plain}


def list_given(
    capture: Capture, source: Source | None, pointers: Sequence[Pointer], default_type: str | None
) -> tuple[Given, ...]:
    """List the arguments. ``default_type``: of the elements of outputs, and of those without a known type."""
    call = capture.launch.triton
    if capture.kernel.triton is not None and call is not None:
        given = list(_list_of_call(capture, call, pointers, default_type))
    else:
        given = list(_list_slots(capture, source, pointers, default_type))
    if capture.kernel.triton is not None:
        for value in capture.kernel.triton.constexprs:
            found, plain = _read_plain(value.text)
            if found:
                given.append(Given(None, value.name, f"{value.name} (constexpr)", plain=plain))
    return tuple(given)


def _list_slots(
    capture: Capture, source: Source | None, pointers: Sequence[Pointer], default_type: str | None
) -> Iterator[Given]:
    slots = list_explicit_slots(capture.kernel)
    written = source.definition.parameters if source is not None and source.definition is not None else ()
    declared = find_argument_types(capture.kernel, [each.type_name for each in written])
    names = [each.name for each in written] if len(written) == len(slots) else []
    for number, (slot, type_text) in enumerate(zip(slots, declared, strict=True)):
        name = (slot.name or (names[number] if names else "")).removesuffix(_COERCED) or None
        held = [each for each in pointers if each.argument == number]
        whole = [each for each in held if "." not in each.name.removesuffix(_COERCED)]
        for pointer in held if len(held) > len(whole) else ():
            view = _find_view(capture, pointer, default_type)
            yield Given(None, pointer.name, pointer.label, view, is_const=pointer.is_const)
        if whole:
            view = _find_view(capture, whole[0], default_type)
            label = whole[0].label.replace(_COERCED, "")
            yield Given(number, name or whole[0].name, label, view, is_const=whole[0].is_const)
            continue
        value = read_value(capture, slot)
        kind = find_element_type(type_text) if type_text else None
        if kind is not None and len(value) % find_size(kind):
            kind = None
        label = f"{name or f'argument {number}'}" + (f" ({type_text})" if type_text else "")
        yield Given(number, name, label, value=value, value_type=kind)


def _list_of_call(
    capture: Capture, call: TritonLaunch, pointers: Sequence[Pointer], default_type: str | None
) -> Iterator[Given]:
    types = {pointer.address: pointer for pointer in pointers}
    for number, argument in enumerate(call.arguments):
        if argument.tensor is None:
            found, plain = _read_plain(argument.text)
            if found:
                yield Given(number, argument.name, argument.name, plain=plain)
            continue
        known = types.get(argument.tensor.address)
        if known is None:
            continue
        pointer = replace(known, label=f"{argument.name} ({known.label.partition(' (')[2] or '?)'}")
        view = _find_view(capture, pointer, default_type)
        if view is not None:
            view = _shape_view(view, argument.tensor)
        yield Given(number, argument.name, pointer.label, view, is_const=pointer.is_const)


def _find_view(capture: Capture, pointer: Pointer, default_type: str | None) -> View | None:
    kind = pointer.element_type or default_type if pointer.is_const else default_type or pointer.element_type
    for region in capture.regions:
        if region.pre is not None and region.contains(pointer.address):
            return View(region.base_address, pointer.address - region.base_address, region.size_bytes, kind)
    return None


def _shape_view(view: View, tensor: TritonTensor) -> View:
    """Give a view the shape of a tensor, if that is known and lies within the captured memory."""
    shape, strides = tensor.shape, tensor.strides
    if shape is None:
        return view
    if strides is None or len(strides) != len(shape):
        # An object that does not tell its strides holds its elements one after the other.
        strides = tuple(int(np.prod(shape[place + 1 :])) for place in range(len(shape)))
    extent = _measure_extent(shape, strides) * view.item_bytes
    if min(strides, default=0) < 0 or view.start + extent > view.end or view.element_type is None:
        return view
    return replace(view, shape=tuple(shape), strides=tuple(strides))


def _measure_extent(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Return how many elements of memory lie from a tensor's first element to its last one."""
    if 0 in shape:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))


def _read_plain(text: str) -> tuple[bool, object]:
    """Read a plain value of Python; first: whether it is one."""
    if match := _NAMED_FLOAT.fullmatch(text):
        return True, float(match[1])
    try:
        value = ast.literal_eval(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False, None
    is_plain = value is None or isinstance(value, (bool, int, float, str))
    return is_plain, value
