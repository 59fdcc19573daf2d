"""Makes perturbed pre-states, which show the bytes that a kernel writes with the value that they already had.

If a kernel ran on the same data before, its outputs do not change, and a variant that writes nothing would
seem right. So a region is perturbed, and the captured kernel is replayed from there. The variant must then
give the same outputs.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from kerncap_stages.digest import MemoryRef
from kerncap_stages.store.chunks import read_chunk, read_chunk_list
from kerncap_stages.validate.arguments import Window
from kerncap_stages.validate.compare.bounds import FLOAT_TYPES
from kerncap_stages.validate.perturb.address_ranges import find_null_words
from kerncap_stages.validate.perturb.fresh import Freshness, FreshValues, Variety
from kerncap_stages.validate.perturb.guessed_types import find_type
from kerncap_stages.validate.perturb.patterns import (
    STRONG_UNIT,
    Golden,
    choose_light_unit,
    choose_samples,
    flip,
    make_pattern,
)
from kerncap_stages.validate.perturb.slabs import are_same, for_each_slab

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt

    from kerncap_stages.manifests.memory import Region
    from kerncap_stages.store import Store, Transaction
    from kerncap_stages.validate.arguments import Span
    from kerncap_stages.validate.perturb.address_ranges import AddressRanges

    Bytes = npt.NDArray[np.uint8]

# Perturbing a region takes as long as capturing it again. In larger regions only samples are perturbed, and
# bytes that the kernel is known to write.
MAX_BYTES = 1 << 30
_MOST_KEPT_BYTES = 32 << 20  # of regions whose fresh values are kept; these take twice as much
_SLAB_BYTES = 1 << 20  # of a pattern that is made once and used again; a multiple of the size of every unit


class Perturbation(StrEnum):
    """How a region is perturbed."""

    STRONG = "strong"  # everywhere, with large changes: for outputs that are written and never read
    LIGHT = "light"  # everywhere, the lowest bit of each byte
    LIGHT_MAGNITUDE = "light_magnitude"  # everywhere, so that numbers keep their magnitude
    LIGHT_SAMPLES = "light_samples"  # samples of a large region, and bytes that the kernel is known to write
    LIGHT_WRITTEN = "light_written"  # only bytes that the kernel is known to write
    LIGHT_VARIABLES = "light_variables"  # the variables in the region
    # Like LIGHT and LIGHT_VARIABLES without addresses of captured memory: kernels that follow them would
    # fault.
    LIGHT_NUMBERS = "light_numbers"
    LIGHT_VARIABLE_NUMBERS = "light_variable_numbers"
    # The same without zeros that may be null pointers, which end lists.
    LIGHT_NONZERO = "light_nonzero"
    LIGHT_VARIABLE_NONZERO = "light_variable_nonzero"
    # Fresh values from a seed, see Freshness.
    FRESH_ANY = "fresh_any"
    FRESH_IN_DISTRIBUTION = "fresh_in_distribution"
    FRESH_NEAR = "fresh_near"
    FRESH_FLOATS = "fresh_floats"
    FRESH_IN_PLACE = "fresh_in_place"


EVERYWHERE = frozenset(
    {Perturbation.STRONG, Perturbation.LIGHT, Perturbation.LIGHT_MAGNITUDE, Perturbation.LIGHT_VARIABLES}
)
_OF_REGIONS = frozenset(
    {
        Perturbation.STRONG,
        Perturbation.LIGHT,
        Perturbation.LIGHT_MAGNITUDE,
        Perturbation.LIGHT_NUMBERS,
        Perturbation.LIGHT_NONZERO,
    }
)
# Light perturbations of a region and of variables; each pair leaves more bytes unperturbed than the one
# before.
LIGHT_PAIRS = (
    (Perturbation.LIGHT, Perturbation.LIGHT_VARIABLES),
    (Perturbation.LIGHT_NUMBERS, Perturbation.LIGHT_VARIABLE_NUMBERS),
    (Perturbation.LIGHT_NONZERO, Perturbation.LIGHT_VARIABLE_NONZERO),
)
_OF_VARIABLES = frozenset(of_variables for _, of_variables in LIGHT_PAIRS)
# The strongest first.
FRESH = {
    Perturbation.FRESH_ANY: Freshness.ANY,
    Perturbation.FRESH_IN_DISTRIBUTION: Freshness.IN_DISTRIBUTION,
    Perturbation.FRESH_NEAR: Freshness.NEAR,
    Perturbation.FRESH_FLOATS: Freshness.FLOATS,
    Perturbation.FRESH_IN_PLACE: Freshness.IN_PLACE,
}


@dataclass(frozen=True)
class Trial:
    """A region and the way to perturb it.

    parts: the types of its elements. keep_magnitude: numbers keep their magnitude under light perturbations.
    seed: of fresh values. variety: which of the states that belong to the seed. all_fresh: the state of
    ``Variety.ALL``, which the others begin with; None: not known.
    """

    region: Region
    perturbation: Perturbation
    parts: tuple[Span, ...]
    keep_magnitude: bool = False
    seed: int = 0
    variety: Variety = Variety.ALL
    all_fresh: MemoryRef | None = field(default=None, compare=False)

    @property
    def units(self) -> list[bytes]:
        """The bits to flip in an element of each part."""
        if self.perturbation is Perturbation.STRONG:
            return [STRONG_UNIT] * len(self.parts)
        keep = self.keep_magnitude or self.perturbation is Perturbation.LIGHT_MAGNITUDE
        return [choose_light_unit(part, keep_magnitude=keep) for part in self.parts]

    @property
    def of_variables(self) -> bool:
        """Whether only variables in the region are perturbed."""
        return self.perturbation in _OF_VARIABLES

    @property
    def is_fresh(self) -> bool:
        """Whether the region gets fresh values."""
        return self.perturbation in FRESH

    @property
    def window(self) -> Window:
        """Where fresh values are."""
        return Window(self.region.size_bytes, self.parts)

    @property
    def perturbed_bytes(self) -> int:
        """How many bytes may change, at most."""
        return self.window.chunk_bytes if self.is_fresh else self.region.size_bytes

    def describe(self) -> list[object]:
        """Return all that the perturbed state depends on besides the capture, as plain JSON."""
        elements = [[part.start, part.end, part.element_type] for part in self.parts]
        if self.is_fresh:
            return [self.region.base_address, self.perturbation, elements, self.seed, self.variety]
        return [self.region.base_address, self.perturbation, elements, [unit.hex() for unit in self.units]]


class MadeValues:
    """Fresh values of regions, from ``Variety.ALL`` until the other states of the seed are made of them."""

    def __init__(self) -> None:
        self._made: dict[tuple[object, ...], FreshValues] = {}
        self._size_bytes = 0

    def keep(self, trial: Trial, made: MemoryRef, values: FreshValues) -> None:
        """Keep the values of a region, of which ``made`` is the state of ``Variety.ALL``."""
        if self._size_bytes + trial.perturbed_bytes <= _MOST_KEPT_BYTES:
            self._size_bytes += trial.perturbed_bytes
            self._made[_name_values(trial, made)] = values

    def take(self, trial: Trial) -> FreshValues | None:
        """Return the values from which this state is made, and forget them; None if they were not kept."""
        if trial.all_fresh is None:
            return None
        found = self._made.pop(_name_values(trial, trial.all_fresh), None)
        self._size_bytes -= 0 if found is None else trial.perturbed_bytes
        return found


def _name_values(trial: Trial, made: MemoryRef) -> tuple[object, ...]:
    return trial.region.base_address, trial.perturbation, trial.parts, trial.seed, made


def perturb(
    store: Store,
    transaction: Transaction,
    trial: Trial,
    variables: Sequence[tuple[int, int]] = (),
    ranges: AddressRanges | None = None,
    made: MadeValues | None = None,
) -> MemoryRef:
    """Stage the perturbed pre-state of a region.

    variables: (offset, length) of each variable, for perturbations of variables. ranges: all captured memory,
    to recognise addresses. made: gets fresh values. Raises ValueError if the region has no pre-state.
    """
    region, kind = trial.region, trial.perturbation
    if region.pre is None:
        raise ValueError("the region has no pre-state")
    if trial.is_fresh:
        return perturb_freshly(store, transaction, [trial], ranges, made)[0]
    golden = Golden(store, region)
    parts = list(zip(trial.parts, trial.units, strict=True))
    if kind in _OF_REGIONS:
        return _perturb_everywhere(store, transaction, region.pre, kind, parts, ranges, golden.read)
    memory = read_chunk_list(store, region.pre)
    writer = transaction.open_memory_writer(memory.size_bytes)
    places = variables if trial.of_variables else region.written or ()
    if kind is Perturbation.LIGHT_SAMPLES:
        places = choose_samples(region.size_bytes, places)
    for index in range(len(memory.digests)):
        start = index * memory.chunk_size_bytes
        end = start + memory.measure(index)
        touched = [
            (max(offset, start), min(offset + length, end))
            for offset, length in places
            if offset < end and offset + length > start
        ]
        if not touched:
            writer.append_same(end - start, [memory.digests[index]])
            continue
        chunk, after = read_chunk(store, memory, index).copy(), golden.make_chunk_reader(index)
        with _keep_addresses(chunk, kind, ranges):
            for part, unit in parts:
                for first, last in touched:
                    low, high = max(first, part.start), min(last, part.end)
                    if low < high:
                        pattern = make_pattern(part, unit, low, high)
                        flip(chunk[low - start : high - start], low, part, pattern, after)
        writer.append(chunk)
    return MemoryRef.to(writer.finish())


def perturb_freshly(
    store: Store,
    transaction: Transaction,
    trials: Sequence[Trial],
    ranges: AddressRanges | None,
    made: MadeValues | None = None,
) -> list[MemoryRef]:
    """Stage the pre-states of a region that these trials make: they differ in their variety alone.

    ranges, made: as for ``perturb``.
    """
    first = trials[0]
    region = first.region
    if region.pre is None:
        raise ValueError("the region has no pre-state")
    values = None if made is None else made.take(first)
    window = first.window
    if values is None:
        is_output = bool(region.written)
        values = FreshValues(
            window.read(store, region.pre),
            _guess_types(store, first) if is_output else window.inner_parts,
            FRESH[first.perturbation],
            ranges,
            first.seed ^ region.base_address,
            is_output=is_output,
            known=None if first.all_fresh is None else window.read(store, first.all_fresh),
        )
    states = []
    for trial, content in zip(trials, values.make(*(trial.variety for trial in trials)), strict=True):
        # Without floats several states are the same. Comparing them takes less time than hashing.
        if are_same(content, values.captured):
            states.append(region.pre)
        elif trial.all_fresh is not None and values.known is not None and are_same(content, values.known):
            states.append(trial.all_fresh)
        else:
            states.append(window.put(store, transaction, region.pre, content))
        if made is not None and trial.variety is Variety.ALL:
            values.known = content
            made.keep(trial, states[-1], values)
    return states


def _guess_types(store: Store, trial: Trial) -> tuple[Span, ...]:
    """Return the parts of an output, as they lie in the trial's window.

    What the captured kernel wrote tells types that nobody knows; zeros that were there before tell nothing.
    """
    after, parts = trial.region.post, trial.window.inner_parts
    if after is None or all(part.element_type in FLOAT_TYPES for part in parts):
        return parts
    content = trial.window.read(store, after)
    is_any = trial.perturbation is Perturbation.FRESH_ANY
    return tuple(
        replace(part, element_type=find_type(part.element_type, content[part.start : part.end]))
        if is_any or part.element_type is None
        else part
        for part in parts
    )


def _perturb_everywhere(
    store: Store,
    transaction: Transaction,
    pre: MemoryRef,
    kind: Perturbation,
    parts: Sequence[tuple[Span, bytes]],
    ranges: AddressRanges | None,
    golden: Callable[[int, int], Bytes],
) -> MemoryRef:
    """Perturb a whole region at once, of at most MAX_BYTES: that is read and hashed on all cores."""
    content = store.read_memory(pre.digest)
    with _keep_addresses(content, kind, ranges):
        for part, unit in parts:
            pattern = make_pattern(part, unit, part.start, part.start + _SLAB_BYTES)  # the same in every slab

            def flip_slab(low: int, high: int, part: Span = part, pattern: Bytes = pattern) -> None:
                flip(content[low:high], low, part, pattern[: high - low], golden)

            for_each_slab(flip_slab, part.start, min(part.end, content.size), _SLAB_BYTES)
    return MemoryRef.to(transaction.put_memory(content))


@contextmanager
def _keep_addresses(content: Bytes, kind: Perturbation, ranges: AddressRanges | None) -> Iterator[None]:
    """Restore addresses, and zeros that may be addresses, after the ``with`` block if ``kind`` keeps them."""
    _, but_addresses, and_zeros = LIGHT_PAIRS
    if ranges is None or kind not in (*but_addresses, *and_zeros):
        yield
        return
    words = content[: content.size // 8 * 8].view(np.uint64)
    numbers = ranges.find_addresses(words)
    if kind in and_zeros:
        numbers = np.concatenate([numbers, find_null_words(words, numbers)])
    before = words[numbers]
    yield
    words[numbers] = before
