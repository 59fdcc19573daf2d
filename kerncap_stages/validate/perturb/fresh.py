"""Makes fresh values: a kernel's inputs, changed at random from a seed that no variant can know.

A variant may hold the results for exactly the captured inputs, or ignore an input. From fresh values it gives
other results than the captured kernel. The values stay like the captured ones, so that the kernel goes on
along its usual paths: numbers change places, and floats also some of their digits. Words that hold addresses
of captured memory, and zeros that may be null pointers, keep their values and places.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from kerncap_stages.machine.cores import do_all
from kerncap_stages.validate.compare.bounds import INTEGER_TYPES
from kerncap_stages.validate.compare.float_bits import FLOATS, find_landmarks, find_usual, have_no_numbers
from kerncap_stages.validate.perturb.address_ranges import WORD_BYTES, find_kept_words
from kerncap_stages.validate.perturb.guessed_types import find_type, guess_integer
from kerncap_stages.validate.perturb.moving import (
    change_lone_counts,
    change_lowest_bits,
    choose_few,
    exchange_few,
    is_scalar,
    look_like_places,
    permute,
    permute_places,
    permute_unknown,
)
from kerncap_stages.validate.perturb.slabs import cut_into_slabs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt

    from kerncap_stages.validate.arguments import Span
    from kerncap_stages.validate.perturb.address_ranges import AddressRanges

    Bytes = npt.NDArray[np.uint8]
    Words = npt.NDArray[np.unsignedinteger]

_SLAB = 1 << 20  # elements that change places with each other
_MOST_MADE_BYTES = 80 << 20  # of states that are made at once
_ONE_ZERO_OF = 4  # elements, where some become zero
_FLAGS = "flags"  # bytes that are 0 or 1
_ONE_FLAG_OF = 4  # flags, where some change
# How many bits of each float's mantissa change. What stays is enough that it changes by an eighth at most.
_CHANGED_BITS = {"fp64": 49, "fp32": 20, "fp16": 7, "bf16": 4}
_OF_SIZE: dict[int, type[np.unsignedinteger]] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


class Freshness(StrEnum):
    """How far values change."""

    # As IN_DISTRIBUTION; besides, half of the floats change their sign. Of eight integers one becomes any
    # number, one gets another highest bit, and one becomes zero; flags in bytes stay 0 or 1, and what may be
    # places in an output only changes places. Zeros become any below 1 if there is no other number.
    ANY = "any"
    # Numbers change places. Floats change by an eighth at most, and are never larger than the largest
    # captured one.
    IN_DISTRIBUTION = "in_distribution"
    # As FLOATS; of elements of unknown type, the lowest bits of bytes change: records of several types, as
    # blocks of quantised numbers with their scales, stay near what they were.
    NEAR = "near"
    # Floats only: integers and elements of unknown type may be indices, sizes or flags.
    FLOATS = "floats"
    # Floats only, where they are. An allocation may hold other numbers beside those that the kernel reads,
    # and in their places these would leave nothing of its outputs.
    IN_PLACE = "in_place"


class Variety(StrEnum):
    """Which of several states with fresh values it is. They belong to one seed."""

    ALL = "all"  # all elements have fresh values
    FEW = "few"  # a few elements have those of ALL, the others are as captured
    FEW_OTHERS = "few_others"  # as FEW, of other elements: FEW may change a word that a variant looks at
    # The captured values with other signs: of ANY all floats have the opposite one, of other floats half of
    # them. Integers of ANY become any number, of the opposite sign, unless there are only two different ones,
    # as of flags. A 1 that stands alone becomes zero.
    SIGNS = "signs"
    # ALL with other signs: each number of ANY has the opposite sign, of other floats half of them do.
    MIRRORED = "mirrored"
    # ALL with a quarter of the floats zero, and without numbers in place of zeros alone, but in outputs. Of
    # floats that are not of ANY, those change their sign that do not in MIRRORED.
    ZEROS = "zeros"
    LONE = "lone"  # the captured values with other lone numbers and addresses; not made here


OTHER_SIGNS = frozenset({Variety.SIGNS, Variety.MIRRORED, Variety.ZEROS})


class FreshValues:
    """Fresh values of a region from one seed."""

    def __init__(
        self,
        captured: Bytes,
        parts: Sequence[Span],
        freshness: Freshness,
        ranges: AddressRanges | None,
        seed: int,
        *,
        is_output: bool = False,
        known: Bytes | None = None,
    ) -> None:
        """``captured``: uint8[size_bytes], the whole region. parts: the types of its elements.

        ranges: all captured memory, to recognise addresses. is_output: the captured kernel writes the region,
        so zeros there are old values. known: uint8[size_bytes], what ``make`` returned for ``Variety.ALL``;
        the other states begin with that.
        """
        self.captured = captured
        self._parts = parts
        self._freshness = freshness
        self._seed = seed
        self._is_output = is_output
        self.known = known
        self._kept = find_kept_words(captured, ranges)
        self._types: dict[tuple[Span, bool], str | None] = {}
        self._places: dict[tuple[int, str | None], bool] = {}  # whether a slab's integers look like places

    def make(self, *varieties: Variety) -> Iterator[Bytes]:
        """Yield the region with fresh values of each variety: uint8[size_bytes].

        They are made at once, unless that takes much memory: then each when it is asked for.
        """
        several = len(varieties) if self.captured.size * len(varieties) <= _MOST_MADE_BYTES else 1
        for first in range(0, len(varieties), several):
            yield from self._make_at_once(varieties[first : first + several])

    def _make_at_once(self, varieties: Sequence[Variety]) -> list[Bytes]:
        contents = [self.captured.copy() for _ in varieties]
        # An input may be fresh in many small parts, each of which is one slab.
        do_all(
            [
                slab
                for content, variety in zip(contents, varieties, strict=True)
                for part in self._parts
                for slab in self._freshen(content, part, variety)
            ]
        )
        return contents

    def _are_places(self, values: Words, low: int, element_type: str | None) -> bool:
        """Whether a slab's captured integers look like places: to tell that, they are sorted."""
        key = low, element_type
        if key not in self._places:
            self._places[key] = look_like_places(values)
        return self._places[key]

    def _find_type(self, part: Span, *, guesses: bool) -> str | None:
        """Return the type of a part's elements. ``guesses``: tell a type that nobody knows by the values."""
        if (part, guesses) not in self._types:
            kind, content = part.element_type, self.captured[part.start : part.end]
            if guesses:
                kind = find_type(kind, content)
            if self._freshness is Freshness.ANY:
                kind = _find_integers(kind, content)
            self._types[part, guesses] = kind
        return self._types[part, guesses]

    def _freshen(self, content: Bytes, part: Span, variety: Variety) -> list[Callable[[], None]]:
        """Return calls that replace the captured values of a part, slab by slab."""
        kept, freshness, seed = self._kept, self._freshness, self._seed
        changes_signs, is_any = variety in OTHER_SIGNS, freshness is Freshness.ANY
        guesses = is_any or (changes_signs and part.element_type is None)
        kind = self._find_type(part, guesses=guesses)
        word = _choose_word(kind)
        size = np.dtype(word).itemsize
        end = part.start + (min(part.end, content.size) - part.start) // size * size
        is_empty = kind in FLOATS and have_no_numbers(content[part.start : end].view(word), kind)
        fills = self._is_output if variety is Variety.ZEROS else is_any or changes_signs
        known = self.known
        if (kind != part.element_type and not is_any) or (is_empty and fills != is_any):
            known = None  # ALL took the part for another type, or left its zeros
        make: Callable[..., Words] = _make_floats if is_empty and fills else _freshen_elements

        def freshen_slab(low: int, high: int) -> None:
            elements = content[low:high].view(word)
            free: slice | npt.NDArray[np.bool_] = slice(None)
            if kept is not None:
                offsets = np.arange(low, high, size)
                free = ~(kept[offsets // WORD_BYTES] | kept[(offsets + size - 1) // WORD_BYTES])
            values = elements[free]
            # Of each slab's own, as slabs come in any order; and a variety's own, if ALL is known or not.
            are_places = is_any and kind in INTEGER_TYPES and self._are_places(values, low, kind)
            if variety is Variety.SIGNS:
                made = values
            elif known is None and are_places:
                made = permute_places(values, np.random.Generator(np.random.PCG64([seed, low])))
            elif known is None:
                made = make(values, kind, freshness, np.random.Generator(np.random.PCG64([seed, low])))
            else:
                made = known[low:high].view(word)[free]
            generator = np.random.Generator(np.random.PCG64([seed, low, 1]))
            if variety in (Variety.FEW, Variety.FEW_OTHERS):
                choose = exchange_few if are_places else choose_few
                made = choose(values, made, generator, others=variety is Variety.FEW_OTHERS)
            elif variety is Variety.SIGNS:
                made = _flip_signs(values, kind, freshness, generator)
            elif changes_signs and not are_places:
                made = _change_signs(values, made, kind, freshness, generator, variety)
            elements[free] = made

        return cut_into_slabs(freshen_slab, part.start, end, _SLAB * size)


def _find_integers(element_type: str | None, content: Bytes) -> str | None:
    """Return the type of what are small integers or flags, else the given one. Flags stay 0 or 1.

    No compiler expects another number in a ``bool``.
    """
    if element_type is None:
        return guess_integer(content)
    return _FLAGS if element_type in ("int8", "uint8") and content.max(initial=0) <= 1 else element_type


def _change_signs(
    values: Words,
    made: Words,
    element_type: str | None,
    freshness: Freshness,
    generator: np.random.Generator,
    variety: Variety,
) -> Words:
    """Return the fresh values with the signs, and the zeros, of a variety. ``values``: the captured ones."""
    is_mirrored, is_any = variety is Variety.MIRRORED, freshness is Freshness.ANY
    if element_type not in FLOATS:
        is_signed = element_type in INTEGER_TYPES and element_type.startswith("int")
        return -made if is_mirrored and is_any and is_signed else made
    sign = find_landmarks(element_type)[0]
    flips = generator.integers(0, 2, values.size, np.uint8) == 0
    flips = np.full(values.size, is_mirrored) if is_any else flips == is_mirrored
    is_zero = made & ~sign == 0
    usual = find_usual(made, element_type)
    # Infinities keep their signs: in an additive mask the other sign would give NaNs alone.
    changed = np.where(flips & usual, made ^ sign, made)
    # Zeros that came to where a number was would hide its sign, so these two states have numbers of opposite
    # signs there.
    numbers = made[usual]
    holes = np.flatnonzero(is_zero & (values & ~sign != 0))
    if numbers.size:
        others = generator.choice(numbers, holes.size)
    is_rare = generator.integers(0, _ONE_ZERO_OF, values.size, np.uint8) == 0
    if not is_mirrored:
        changed[is_rare] = 0
    if numbers.size:
        changed[holes] = others ^ sign if is_mirrored else others
    return changed


def _flip_signs(
    values: Words, element_type: str | None, freshness: Freshness, generator: np.random.Generator
) -> Words:
    """Return the captured values with other signs, and with other integers, but flags."""
    word, is_any = values.dtype.type, freshness is Freshness.ANY
    sign = word(1 << (8 * values.itemsize - 1))
    fresh = values
    if element_type in FLOATS:
        flips = find_usual(values, element_type)
        if not is_any:
            flips &= generator.integers(0, 2, values.size, np.uint8) == 0
        fresh = np.where(flips, values ^ sign, values)
    elif is_any and is_scalar(values) and (element_type == _FLAGS or values[0] == 1):
        fresh = np.where(values == 1, word(0), values)
    elif is_any and element_type in INTEGER_TYPES and not _are_two_values(values):
        fresh = generator.integers(0, sign, values.size, word) | ~values & sign
    return fresh


def _are_two_values(values: Words) -> bool:
    return not values.size or bool(((values == values.min()) | (values == values.max())).all())


def _choose_word(element_type: str | None) -> type[np.unsignedinteger]:
    if element_type in FLOATS:
        return FLOATS[element_type][0]
    if element_type in INTEGER_TYPES:
        return _OF_SIZE[int(element_type.removeprefix("u").removeprefix("int")) // 8]
    return np.uint32 if element_type is None else np.uint8


def _freshen_elements(
    values: Words, element_type: str | None, freshness: Freshness, generator: np.random.Generator
) -> Words:
    """Return fresh values for elements of one type, as many as ``values``."""
    if element_type in FLOATS:
        moved = values if freshness is Freshness.IN_PLACE else permute(values, generator)
        return _freshen_floats(moved, element_type, freshness, generator)
    if freshness in (Freshness.FLOATS, Freshness.IN_PLACE):
        return values
    if freshness is Freshness.NEAR:
        return values if element_type is not None else change_lowest_bits(values, generator)
    moved = permute_unknown(values, generator) if element_type is None else permute(values, generator)
    are_lone = element_type in INTEGER_TYPES and change_lone_counts(values, moved, generator)
    if freshness is Freshness.IN_DISTRIBUTION or are_lone:
        return moved
    word = values.dtype.type
    if element_type in INTEGER_TYPES:
        numbers = generator.integers(0, np.iinfo(word).max, moved.size, word, endpoint=True)
        highest = word(1 << (8 * values.itemsize - 1))
        # A single number is sure to change.
        choice = generator.integers(0, 8 if moved.size > 1 else 3, moved.size, np.uint8)
        moved[choice == 1] ^= highest
        moved[choice == 2] = 0
        fresh: Words = np.where(choice == 0, numbers, moved)
        return fresh
    if element_type == _FLAGS:
        one_of = _ONE_FLAG_OF if moved.size > 1 else 1
        moved[generator.integers(0, one_of, moved.size, np.uint8) == 0] ^= word(1)
    return moved if element_type is not None else change_lowest_bits(moved, generator)


def _make_floats(values: Words, element_type: str, _: Freshness, generator: np.random.Generator) -> Words:
    """Return floats from 1/2 to 1, of both signs, in place of zeros. Infinities and NaNs change places."""
    word, mantissa_bits = FLOATS[element_type]
    bits = 8 * values.itemsize
    half = word((1 << (bits - 2 - mantissa_bits)) - 2 << mantissa_bits)
    signs = generator.integers(0, 2, values.size, word) << word(bits - 1)
    fresh: Words = half | signs | generator.integers(0, 1 << mantissa_bits, values.size, word)
    moved = permute(values, generator) if values.any() else values
    return np.where(moved & ~word(1 << (bits - 1)) == 0, fresh, moved)


def _freshen_floats(
    values: Words, element_type: str, freshness: Freshness, generator: np.random.Generator
) -> Words:
    word = FLOATS[element_type][0]
    sign = find_landmarks(element_type)[0]
    sizes = values & ~sign
    usual = find_usual(values, element_type)  # others stay
    if not usual.any():
        return values
    moved = sizes ^ generator.integers(0, 1 << _CHANGED_BITS[element_type], values.size, word)
    # As far below as it would be above the largest.
    moved = np.where(moved > sizes[usual].max(), sizes - (moved - sizes), moved)
    signs = values & sign
    if freshness is Freshness.ANY:
        signs ^= generator.integers(0, 2, values.size, word) * sign
    fresh: Words = np.where(usual, moved | signs, values)
    return fresh
