"""Moves the elements of an input to other places, so that its numbers stay where a kernel reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Words = npt.NDArray[np.unsignedinteger]

# An allocation is mostly larger than what it holds: long runs of one value lie between and behind its
# numbers. Of these few elements change places with others: one for four, but enough that a single other one
# moves.
_RUN = 64
_OTHERS_FOR_ONE_OF_A_RUN = 4
_FOR_A_SINGLE_ONE = 16
# A captured 1 becomes one of these, and in another state what the other bits give: it may be a count, and a
# larger one would lead out of memory, or flags, and each of three bits is set in one of the two states.
_IN_PLACE_OF_ONE = range(2, 6)
_BITS = 7
_MOST_EQUAL = 8  # so many equal integers may be lengths
_ONE_OF_SO_MANY = 1 << 10  # elements, where few change
# Of more elements than so few, so large a share differs from each other.
_FEW = 3
_MOSTLY = 0.75
_SMALL = 4  # places for each
_FP16_EXPONENT = np.uint32(0x7C00)  # all of it set: a NaN or an infinity


def permute(values: Words, generator: np.random.Generator) -> Words:
    """Return the values in other places; those that are not in long runs of one value stay near each other.

    Else the few numbers of a large allocation would be lost among its zeros, and a kernel would read zeros.
    """
    places = _find_moving(values, generator)
    if places is None:
        return generator.permutation(values)
    moved = values.copy()
    moved[places] = generator.permutation(values[places])
    return moved


def permute_unknown(values: Words, generator: np.random.Generator) -> Words:
    """Return words of unknown type, uint32, in other places.

    A word that holds a NaN or an infinity as fp16 changes places only with others that do. Blocks of
    quantised numbers hold their scales as fp16: if such a word came to the place of a scale, the outputs
    would be NaNs. The upper half of a NaN or an infinity of a longer type is one as fp16, too.
    """
    low, high = _FP16_EXPONENT, _FP16_EXPONENT << np.uint32(16)
    is_special = (values & low == low) | (values & high == high)
    moved = values.copy()
    for part in (is_special, ~is_special):
        np.place(moved, part, permute(values[part], generator))  # in half the time of an assignment
    return moved


def _find_moving(values: Words, generator: np.random.Generator) -> npt.NDArray[np.int64] | None:
    """Find the places whose values change places with each other; None: all."""
    in_run = _find_filling(values)
    if in_run is None or in_run.all():
        return None
    others, runs = np.flatnonzero(~in_run), np.flatnonzero(in_run)
    if others.size == 1 and others[0] == 0:
        return others  # a scalar in an allocation of its own: elsewhere nobody would read it
    few = others.size // _OTHERS_FOR_ONE_OF_A_RUN if others.size > 1 else _FOR_A_SINGLE_ONE
    return np.concatenate((others, generator.choice(runs, min(max(1, few), runs.size), replace=False)))


def _find_filling(values: Words) -> npt.NDArray[np.bool_] | None:
    """Mark the long runs of one value: of zeros if there are any, else of the longest run; None: no runs."""
    equal = values[1:] == values[:-1]
    if np.count_nonzero(equal) < _RUN - 1:
        return None
    begins = np.concatenate(([0], np.flatnonzero(~equal) + 1))
    lengths = np.diff(np.append(begins, values.size))
    is_long = lengths >= _RUN
    if not is_long.any():
        return None
    firsts = values[begins]
    has_zeros = bool((is_long & (firsts == 0)).any())
    filling = 0 if has_zeros else firsts[lengths.argmax()]
    return np.repeat(is_long & (firsts == filling), lengths)


def is_scalar(values: Words) -> bool:
    """Whether an element stands alone at the start of an allocation."""
    return values.size > 0 and bool(values[0]) and not values[1:].any()


def permute_places(values: Words, generator: np.random.Generator) -> Words:
    """Return the values in other places, but long runs of one value, so that no two become the same."""
    in_run = _find_filling(values)
    moved = values.copy()
    others = np.arange(values.size) if in_run is None else np.flatnonzero(~in_run)
    moved[others] = generator.permutation(values[others])
    return moved


def look_like_places(values: Words) -> bool:
    """Whether integers may be places in an output: nearly all are small and differ, long runs left out.

    If two became the same, two work-items would write one place, and the last one would win.
    """
    in_run = _find_filling(values)
    others = values if in_run is None else values[~in_run]
    small = np.unique(others[others < _SMALL * others.size])
    return others.size > _FEW and small.size > _MOSTLY * others.size


def change_lone_counts(values: Words, moved: Words, generator: np.random.Generator) -> bool:
    """Change an integer, or a few equal ones, alone at the start of an allocation; returns whether there are.

    It may be a count or a length, so it becomes smaller, and at least half of it is left: a larger one would
    lead out of memory. Of a few equal ones, as lengths of rows, some become smaller, and at least one does.
    values: the captured ones. moved: gets the changed ones.
    """
    few = _count_equal(values)
    captured = int(values[0]) if few else 0
    if not (captured == 1 and few == 1) and not 1 < captured < 1 << (8 * values.itemsize - 1):
        return False
    if captured == 1:
        moved[0] = generator.choice(_IN_PLACE_OF_ONE)
        return True
    smaller = captured - generator.integers(1, captured // 2, few, endpoint=True).astype(values.dtype)
    stays = generator.integers(0, 2, few) == 1
    stays[generator.integers(few)] = False
    moved[:] = values
    moved[:few] = np.where(stays, values[:few], smaller)
    return True


def _count_equal(values: Words) -> int:
    """Count equal integers that stand alone at the start of an allocation; 0 if there are none, or many."""
    numbers = np.flatnonzero(values[: _MOST_EQUAL + 1])
    few = numbers.size
    is_alone = 0 < few <= _MOST_EQUAL and numbers[-1] == few - 1 and not values[few:].any()
    return few if is_alone and (values[:few] == values[0]).all() else 0


def choose_few(values: Words, made: Words, generator: np.random.Generator, *, others: bool) -> Words:
    """Return the values, of which a few are those that were made: one in each slab, and one of so many.

    Of what was made, only what differs counts, and not in place of zeros if that leaves any: zeros may lie
    behind the numbers. others: those that a call with the same generator leaves.
    """
    changed = values.copy()
    if others and is_scalar(values) and values[0] == 1 != made[0]:
        changed[0] = made[0] ^ values.dtype.type(_BITS)
        return changed
    able = np.flatnonzero((made != values) & (values != 0))
    if not able.size:
        able = np.flatnonzero(made != values)
    few = 1 + values.size // _ONE_OF_SO_MANY
    chosen = generator.choice(able, min(2 * few, able.size), replace=False)
    places = chosen[few:] if others else chosen[:few]
    changed[places] = made[places]
    return changed


def exchange_few(values: Words, made: Words, generator: np.random.Generator, *, others: bool) -> Words:
    """Return the values, of which a few have changed places: twice as many as ``choose_few`` changes.

    made: other places of all.
    """
    changed = values.copy()
    able = np.flatnonzero(made != values)
    few = 2 * (1 + values.size // _ONE_OF_SO_MANY)
    chosen = generator.choice(able, min(2 * few, able.size), replace=False)
    places = chosen[few:] if others else chosen[:few]
    changed[places] = values[np.roll(places, 1)]
    return changed


def change_lowest_bits(values: Words, generator: np.random.Generator) -> Words:
    """Change the lowest bits of half of all bytes: floats of any type stay finite unless very large."""
    bits = generator.integers(0, 1 << 32, values.size, np.uint32) & np.uint32(0x01010101)
    changed: Words = values ^ bits
    return changed
