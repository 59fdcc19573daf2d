"""Changes a number that stands alone in an input: a seed, a flag, or bits of which several count together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kerncap_stages.validate.compare.bounds import INTEGER_TYPES

if TYPE_CHECKING:
    import numpy.typing as npt

    Bytes = npt.NDArray[np.uint8]

_WORD_BITS = 32
# Other states with fresh values make 2 to 5 of a lone 1, which never sets the bits 2 and 4 together. As a
# count, a larger number mostly leads out of memory.
_IN_PLACE_OF_ONE = (6, 7)


def change_lone_number(content: Bytes, element_type: str | None, generator: np.random.Generator) -> None:
    """Change the first element of a part of an input in place, if it is an integer and zeros follow.

    Zero becomes 1, and 1 becomes 6 or 7. The upper half of 64 bits gets its highest bit and others: as
    a count, such a number is mostly negative, and a kernel does nothing. ``content``: uint8[size_bytes].
    """
    if element_type is not None and element_type not in INTEGER_TYPES:
        return
    bits = _WORD_BITS if element_type is None else int(element_type.removeprefix("u").removeprefix("int"))
    size = bits // 8
    if content.size < size or content[size:].any():
        return
    number = int.from_bytes(content[:size].tobytes(), "little")
    if number == 0:
        changed = 1
    elif number == 1 and bits > 8:  # a flag in a byte stays one
        changed = int(generator.choice(_IN_PLACE_OF_ONE))
    else:
        changed = number
    if bits > _WORD_BITS and 0 < number < 1 << _WORD_BITS:
        changed |= int(generator.integers(1 << (_WORD_BITS - 1), 1 << _WORD_BITS)) << _WORD_BITS
    content[:size] = np.frombuffer(changed.to_bytes(size, "little"), np.uint8)
