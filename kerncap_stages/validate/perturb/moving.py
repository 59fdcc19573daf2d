"""Moves the elements of an input to other places, so that its numbers stay where a kernel reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Words = npt.NDArray[np.unsignedinteger]

# Of a slab that is mostly runs of so many equal elements, as an allocation that is larger than what it holds,
# few elements of runs change places: one for four others, but enough that a single other one moves.
_RUN = 64
_MOSTLY = 0.75
_OTHERS_FOR_ONE_OF_A_RUN = 4
_LEAST_OF_RUNS = 16


def permute(values: Words, generator: np.random.Generator) -> Words:
    """Return the values in other places; where most are alike, those that are not stay near each other.

    Else the few numbers of a large allocation would be lost among its zeros, and a kernel would read zeros.
    """
    places = _find_moving(values, generator)
    if places is None:
        return generator.permutation(values)
    moved = values.copy()
    moved[places] = generator.permutation(values[places])
    return moved


def _find_moving(values: Words, generator: np.random.Generator) -> npt.NDArray[np.int64] | None:
    """Find the places whose values change places with each other; None: all."""
    equal = values[1:] == values[:-1]
    if np.count_nonzero(equal) < _MOSTLY * values.size:
        return None
    begins = np.concatenate(([0], np.flatnonzero(~equal) + 1))
    lengths = np.diff(np.append(begins, values.size))
    in_run = np.repeat(lengths >= _RUN, lengths)
    others, runs = np.flatnonzero(~in_run), np.flatnonzero(in_run)
    if others.size == 1 and others[0] == 0:
        return others  # a scalar in an allocation of its own: elsewhere nobody would read it
    if others.size == 0 or others.size > (1 - _MOSTLY) * values.size or runs.size < _LEAST_OF_RUNS:
        return None
    some = generator.choice(runs, max(_LEAST_OF_RUNS, others.size // _OTHERS_FOR_ONE_OF_A_RUN), replace=False)
    return np.concatenate((others, some))


def lower_scalar(values: Words, moved: Words, generator: np.random.Generator) -> bool:
    """Make an integer smaller that stands alone at the start of an allocation; whether there is one.

    It may be a count or a length, and at least half of it is left: a larger one would lead out of memory.
    ``values``: the captured ones.
    """
    captured = int(values[0]) if values.size and not values[1:].any() else 0
    if not 1 < captured < 1 << (8 * values.itemsize - 1):
        return False
    moved[0] = captured - int(generator.integers(1, captured // 2, endpoint=True))
    return True
