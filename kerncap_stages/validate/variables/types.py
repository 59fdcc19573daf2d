"""Tells the types of what a module variable holds: as its source declares it, else by its values."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from kerncap_stages.code.element_types import find_element_type
from kerncap_stages.code.structs import find_size
from kerncap_stages.validate.arguments import Span
from kerncap_stages.validate.perturb.guessed_types import guess_float, guess_integer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy.typing as npt

    Bytes = npt.NDArray[np.uint8]

_MAX_RECORD_BYTES = 1 << 10
_WORD_BYTES = 4
_DECLARED = r"\b(?:__constant__|__device__)\s+([\w:<>, ]+?)\s+{}\s*(?:\[[^;=]*\]\s*)?[;={{,]"
# Exponents from 2^-40 to 2^40; no small integer looks like that.
_LEAST_EXPONENT, _MOST_EXPONENT = 127 - 40, 127 + 40
_SMALL = 1 << 15


def cut_variable(name: str, content: Bytes, texts: Iterable[bytes]) -> tuple[Span, ...]:
    """Cut a variable into parts whose elements have one type: as the source declares it, else by its values.

    An integer of 0 or 1 counts as a flag, which is its lowest byte. Of a small record each integer is a part.
    """
    label = f"{name} (module variable)"
    kind = _find_declared(name, texts)
    if kind is not None and content.size % find_size(kind) == 0:
        count = content.size // find_size(kind)
        if count == 1 and kind.removeprefix("u").startswith("int"):
            return (_cut_integer(content, 0, find_size(kind), kind, label),)
        return (Span(0, content.size, kind, label),)
    kind = guess_float(content) or guess_integer(content)
    if kind is not None:
        return (Span(0, content.size, kind, label),)
    if content.size > _MAX_RECORD_BYTES or (content.size > 8 and not content.any()):
        return (Span(0, content.size, None, label),)
    if content.size in (1, 2):
        return (_cut_integer(content, 0, content.size, f"uint{8 * content.size}", label),)
    if content.size < _WORD_BYTES:
        return (Span(0, content.size, "uint8", label),)
    if content.size == 8 and _is_wide(content):
        whole = int.from_bytes(content.tobytes(), "little", signed=True)
        if abs(whole) < _SMALL:
            return (_cut_integer(content, 0, 8, "int64", label),)
        return (Span(0, 8, "fp64", label),)
    return tuple(_cut_record(content, label))


def _is_wide(content: Bytes) -> bool:
    """Whether a word of 64 bits is one number: a small integer, or a double of few digits."""
    low, high = (int(word) for word in content.view(np.uint32))
    value = int.from_bytes(content.tobytes(), "little", signed=True)
    has_digits = not _is_float(low) and not _is_small(low)
    return abs(value) < _SMALL or (_is_float(high) and (low == 0 or has_digits))


def _is_float(word: int) -> bool:
    return _LEAST_EXPONENT <= (word >> 23 & 0xFF) <= _MOST_EXPONENT


def _is_small(word: int) -> bool:
    return word < _SMALL or word > (1 << 32) - _SMALL


def _cut_integer(content: Bytes, start: int, size: int, kind: str, label: str) -> Span:
    value = int.from_bytes(content[start : start + size].tobytes(), "little")
    return Span(start, start + 1, "uint8", label) if value <= 1 else Span(start, start + size, kind, label)


def _cut_record(content: Bytes, label: str) -> Iterator[Span]:
    """Yield the words of a record; neighbours that look like floats are one part."""
    end = content.size // _WORD_BYTES * _WORD_BYTES
    words = content[:end].view(np.uint32)
    floats: Span | None = None
    for number, each in enumerate(words):
        at, word = number * _WORD_BYTES, int(each)
        if _is_float(word):
            start = at if floats is None else floats.start
            floats = Span(start, at + _WORD_BYTES, "fp32", label)
            continue
        if floats is not None:
            yield floats
            floats = None
        if _is_small(word):
            yield _cut_integer(content, at, _WORD_BYTES, "int32", label)
        else:
            yield Span(at, at + _WORD_BYTES, None, label)
    if floats is not None:
        yield floats


def _find_declared(name: str, texts: Iterable[bytes]) -> str | None:
    """Return the type of the elements that the source declares; None if it is not one of C++'s own."""
    pattern = re.compile(_DECLARED.format(re.escape(name.rpartition("::")[2])).encode())
    for text in texts:
        match = pattern.search(text)
        if match is not None:
            return find_element_type(match[1].decode(errors="replace"))
    return None
