"""Finds the state in which lone numbers and addresses in tables are others, and all else is as captured.

Only inputs that the kernel cannot write change: a semaphore that is zero at the end, too, would let a
work-group go on before another one is done.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np

from kerncap_stages.digest import MemoryRef
from kerncap_stages.manifests.replay import ReplayOutcome
from kerncap_stages.validate.lone.addresses import exchange_addresses
from kerncap_stages.validate.lone.numbers import change_lone_number
from kerncap_stages.validate.perturb.address_ranges import find_captured_ranges
from kerncap_stages.validate.perturb.fresh import Variety
from kerncap_stages.validate.perturb.left_out import DOES_NOT_COMPLETE
from kerncap_stages.validate.perturb.lost_numbers import label_region
from kerncap_stages.validate.perturb.start import Start
from kerncap_stages.validate.perturb.states import Perturbation, Trial

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy.typing as npt

    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.memory import Region
    from kerncap_stages.manifests.validation import BaselineReplay
    from kerncap_stages.store import Store
    from kerncap_stages.validate.arguments import Span

# An allocation of a few numbers, or a table, is no larger; on CUDA memory comes in pieces of this size.
_MAX_BYTES = 2 << 20
_MAX_INPUTS = 8  # each is tried by itself


class KeepsReplays(Protocol):
    """Replays the captured kernel, unless an earlier validation kept that replay."""

    def find_kept(self, *trials: Trial) -> BaselineReplay | None:
        """Return the replay with these perturbations if an earlier validation kept it, else None."""
        ...

    def run_kept(self, start: Start) -> BaselineReplay:
        """Return the replay from a state; later validations know it."""
        ...


class LoneStates:
    """Makes the state with other lone numbers and exchanged addresses.

    It changes the inputs with which the captured kernel completes, each tried by itself.
    """

    def __init__(
        self,
        store: Store,
        capture: Capture,
        inputs: Sequence[tuple[Region, tuple[Span, ...]]],
        baselines: KeepsReplays,
        seed: int,
    ) -> None:
        """``inputs``: those that the kernel cannot write, with the parts whose elements have one type.

        baselines: replays of the captured kernel.
        """
        self._store = store
        self._capture = capture
        self._baselines = baselines
        self._inputs = inputs
        self._seed = seed
        self._found: list[Start] | None = None
        self.left_out: dict[str, str] = {}  # why an input stays as captured, by its name

    def get_starts(self, find_lost: Callable[[BaselineReplay], Mapping[str, str]]) -> list[Start]:
        """Return the state, if there is one, and it is known that the captured kernel bears it.

        find_lost: finds the outputs that tell little after a replay: why, by their names.
        """
        if self._found is None:
            kept = [self._baselines.find_kept(*start.trials) for start in self._alone]
            replays = [each for each in kept if each is not None]
            if len(replays) == len(kept):
                self._found = self._choose(replays, find_lost)
        return self._found or []

    def find_starts(
        self,
        begin: Callable[[Sequence[Start]], None],
        find_lost: Callable[[BaselineReplay], Mapping[str, str]],
    ) -> list[Start]:
        """As ``get_starts``, but replay the captured kernel with one input changed where that is not known.

        These replays have always the same seed, so that later verdicts know them. begin: begins replays.
        """
        self.get_starts(find_lost)
        if self._found is None:
            begin([each for each in self._alone if self._baselines.find_kept(*each.trials) is None])
            replays = [self._baselines.run_kept(start) for start in self._alone]
            self._found = self._choose(replays, find_lost)
        return self._found or []

    def _choose(
        self,
        replays: Sequence[BaselineReplay],
        find_lost: Callable[[BaselineReplay], Mapping[str, str]],
    ) -> list[Start]:
        borne = []
        for start, replay in zip(self._alone, replays, strict=True):
            region, parts = start.trials[0].region, start.trials[0].parts
            if replay.outcome is not ReplayOutcome.COMPLETED:
                self.left_out[label_region(region, parts)] = DOES_NOT_COMPLETE
            elif lost := find_lost(replay):
                self.left_out[label_region(region, parts)] = next(iter(lost.values()))
            else:
                borne.append((region, parts))
        return [self._make(borne, self._seed)] if borne else []

    @cached_property
    def _alone(self) -> list[Start]:
        """The states in which one input is another one, for each that may be."""
        found: list[Start] = []
        for region, parts in self._inputs:
            if region.size_bytes <= _MAX_BYTES and len(found) < _MAX_INPUTS:
                content, changed = self._change(region, parts, 0)
                if (content != changed).any():
                    found.append(self._make([(region, parts)], 0))
        return found

    def _make(self, inputs: Sequence[tuple[Region, tuple[Span, ...]]], seed: int) -> Start:
        trials = [
            Trial(region, Perturbation.FRESH_ANY, parts, seed=seed, variety=Variety.LONE)
            for region, parts in inputs
        ]
        with self._store.begin_transaction() as transaction:
            made = {
                region.base_address: MemoryRef.to(
                    transaction.put_memory(self._change(region, parts, seed)[1])
                )
                for region, parts in inputs
            }
            transaction.publish_objects()
        return Start(self._store, self._capture, *trials, known=made)

    def _change(
        self, region: Region, parts: Sequence[Span], seed: int
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
        """Return an input as captured and as changed: uint8[size_bytes] each."""
        if region.pre is None:
            raise ValueError("the region has no pre-state")
        content = self._store.read_memory(region.pre.digest)
        changed = content.copy()
        generator = np.random.Generator(np.random.PCG64([seed, region.base_address]))
        words = changed[: changed.size // 8 * 8].view(np.uint64)
        if find_captured_ranges(self._capture).find_addresses(words).size:
            exchange_addresses(self._store, self._capture, region, words, generator)
        else:
            for part in parts:
                piece = changed[part.start : min(part.end, changed.size)]
                change_lone_number(piece, part.element_type, generator)
        return content, changed
