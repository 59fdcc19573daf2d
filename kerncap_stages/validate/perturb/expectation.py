"""The outputs that a run is expected to leave, and how far it may be from them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Set

    from kerncap_stages.digest import MemoryRef
    from kerncap_stages.validate.arguments import Span
    from kerncap_stages.validate.compare.bounds import Bounds
    from kerncap_stages.validate.compare.free_order import FreeOrder
    from kerncap_stages.validate.compare.regions import Bytes
    from kerncap_stages.validate.perturb.start import Start


@dataclass(frozen=True)
class Expectation:
    """The expected outputs of a run from a state, by region, and the bounds of the comparison.

    ``nondeterministic``: parts that are not compared, each as its region's base address and its start.
    ``own``: by how much more each element of other such parts may differ, because outputs of the captured
    kernel itself do.
    """

    start: Start
    expected: Mapping[int, MemoryRef]
    bounds: Bounds
    nondeterministic: frozenset[tuple[int, int]] = frozenset()
    own: Mapping[tuple[int, int], float] = field(default_factory=dict)
    # Ranges in parts of unknown type, by the part as above. ``own`` has these by their own start.
    varying: Mapping[tuple[int, int], tuple[Span, ...]] = field(default_factory=dict)
    # Where elements may stand in any order, by the part.
    free: Mapping[tuple[int, int], FreeOrder] = field(default_factory=dict)
    guesses: bool = False  # elements of unknown type that look like floats are compared as such

    @property
    def perturbed_base(self) -> int | None:
        """Base address of the first perturbed region."""
        return self.start.trials[0].region.base_address if self.start.trials else None

    def is_reordered(self, base: int, part: Span, outputs: Iterator[Bytes], bounds: Bounds) -> bool:
        """Whether a part has the expected elements in another order, where any order is right.

        outputs: the expected ones and those of a run: uint8[size of the part] each.
        """
        free = self.free.get((base, part.start))
        if free is None:
            return False
        expected, actual = outputs
        return free.is_kept(expected, actual, bounds)


def leave_out(wanted: Expectation, failing: Set[tuple[int, int]], *, exclude: bool) -> Expectation:
    """Return an expectation without what was allowed in ranges in which a run differs by more than floats do.

    Without bounds, a part of unknown type has no ranges if it holds such a one. ``exclude``: what fails is
    not compared, and such a part not at all.
    """
    if wanted.bounds.is_exact:
        owners = {(whole[0], each.start): whole for whole, spans in wanted.varying.items() for each in spans}
        failing = {owners.get(where, where) for where in failing}
        wanted = replace(
            wanted,
            own={where: bound for where, bound in wanted.own.items() if owners.get(where) not in failing},
            varying={whole: spans for whole, spans in wanted.varying.items() if whole not in failing},
        )
    return replace(wanted, nondeterministic=wanted.nondeterministic | failing) if exclude else wanted
