"""Chooses the ways to perturb a region, the strongest first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerncap_stages.manifests.memory import MemoryKind
from kerncap_stages.validate.arguments import Span, cut_region
from kerncap_stages.validate.perturb.start import find_variable_ranges
from kerncap_stages.validate.perturb.states import LIGHT_PAIRS, Perturbation, Trial

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.memory import Region
    from kerncap_stages.store import Store
    from kerncap_stages.validate.arguments import Pointer


class Trials:
    """The ways to perturb the regions of one capture."""

    def __init__(
        self,
        store: Store,
        capture: Capture,
        arguments: Sequence[Pointer],
        default_type: str | None,
        *,
        is_exact: bool,
        most_bytes: int,
    ) -> None:
        """``arguments``: those that are pointers. default_type: of all elements; None: as arguments tell.

        is_exact: whether outputs must be the same, byte for byte. most_bytes: of larger regions only samples
        are perturbed.
        """
        self._store = store
        self._capture = capture
        self._arguments = tuple(arguments)
        self._default_type = default_type
        self._is_exact = is_exact
        self._most_bytes = most_bytes

    def find_parts(self, region: Region) -> tuple[Span, ...]:
        """Cut a region into parts whose elements have one type."""
        if self._default_type is not None:
            labels = [part.label for part in cut_region(region, self._arguments) if part.label]
            return (Span(0, region.size_bytes, self._default_type, ", ".join(labels)),)
        return cut_region(region, self._arguments)

    def make(self, region: Region) -> Iterator[Trial]:
        """Yield the ways to perturb a region, the strongest first."""
        parts, keep = self.find_parts(region), not self._is_exact
        for perturbation in self._choose_perturbations(region, parts):
            yield Trial(region, perturbation, parts, keep_magnitude=keep)

    def _choose_perturbations(self, region: Region, parts: tuple[Span, ...]) -> Iterator[Perturbation]:
        # A code object's region holds instructions, too, so only its variables are perturbed.
        if region.kind is MemoryKind.CODE_OBJECT:
            if find_variable_ranges(self._store, self._capture, region):
                yield from (of_variables for _, of_variables in LIGHT_PAIRS)
        elif region.size_bytes <= self._most_bytes:
            if not self._is_exact:
                yield Perturbation.STRONG
            for of_regions, _ in LIGHT_PAIRS:
                yield of_regions
                if of_regions is Perturbation.LIGHT and self._has_magnitudes(region, parts):
                    yield Perturbation.LIGHT_MAGNITUDE
        else:
            yield Perturbation.LIGHT_SAMPLES
        if region.written:
            yield Perturbation.LIGHT_WRITTEN

    def _has_magnitudes(self, region: Region, parts: tuple[Span, ...]) -> bool:
        """Whether keeping magnitudes gives another state. With bounds all light perturbations keep them."""
        light, magnitude = (
            Trial(region, kind, parts).units for kind in (Perturbation.LIGHT, Perturbation.LIGHT_MAGNITUDE)
        )
        return self._is_exact and light != magnitude

    def make_joint(self, regions: Sequence[Region]) -> Iterator[list[Trial]]:
        """Yield ways to perturb all these regions lightly; each leaves more bytes unperturbed.

        The first is everywhere. Yields nothing if they are too large.
        """
        if sum(region.size_bytes for region in regions) > self._most_bytes:
            return
        for pair in LIGHT_PAIRS:
            trials = [
                trial for region in regions for trial in self.make(region) if trial.perturbation in pair
            ]
            if len(trials) < len(regions):
                return
            yield trials
