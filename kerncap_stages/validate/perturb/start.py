"""The state that a replay starts from: the captured one, or one with regions perturbed."""

from __future__ import annotations

from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING

from kerncap_stages.code.code_object import list_writable_data
from kerncap_stages.manifests.memory import MemoryKind
from kerncap_stages.replay.plan import find_own_code
from kerncap_stages.validate.perturb.address_ranges import captured_ranges
from kerncap_stages.validate.perturb.states import perturb

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kerncap_stages.digest import MemoryRef
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.memory import ModuleVariable, Region
    from kerncap_stages.store import Store
    from kerncap_stages.validate.perturb.states import Trial


class Start:
    """Where a replay starts. Perturbed regions are staged when a caller first needs them, from any thread."""

    def __init__(
        self, store: Store, captured: Capture, *trials: Trial, known: Mapping[int, MemoryRef] | None = None
    ) -> None:
        """``known``: perturbed pre-states that an earlier validation kept, by base address."""
        self.trials = trials
        self._store = store
        self._captured = captured
        self._known = known or {}
        self._lock = Lock()

    @property
    def is_perturbed(self) -> bool:
        """Whether any region is."""
        return bool(self.trials)

    @property
    def key(self) -> tuple[tuple[int, str], ...]:
        """Tells it from other states of the same capture."""
        return tuple((trial.region.base_address, trial.perturbation) for trial in self.trials)

    @property
    def capture(self) -> Capture:
        """The capture with the pre-states of this start."""
        with self._lock:
            return self._capture

    @cached_property
    def _capture(self) -> Capture:
        made = self._captured
        for trial in self.trials:
            pre = self._known.get(trial.region.base_address) or self._perturb(trial)
            made = with_pre_state(made, trial.region, pre)
        return made

    def _perturb(self, trial: Trial) -> MemoryRef:
        variables = variable_ranges(self._store, self._captured, trial.region) if trial.of_variables else ()
        ranges = captured_ranges(self._captured)
        with self._store.transaction() as transaction:
            pre = perturb(self._store, transaction, trial, variables, ranges)
            transaction.publish_objects()
        return pre

    @property
    def pre_states(self) -> dict[int, MemoryRef]:
        """The memory of each region at the start, by base address."""
        return {region.base_address: region.pre for region in self.capture.regions if region.pre is not None}


def variable_ranges(store: Store, capture: Capture, region: Region) -> list[tuple[int, int]]:
    """(offset, length) of the variables that the kernel's own code object has in a region and may write."""
    if region.kind is not MemoryKind.CODE_OBJECT or region.pre is None or region.read_only:
        return []
    own = find_own_code(capture)
    if own is None:
        # Where a code object has no place of its own, each of its variables is a region.
        return [(0, region.size_bytes) for each in _variables_at(capture, region) if not each.is_const]
    # A program may have hundreds of other code objects: ours is not read for each of their regions.
    own_end = own.load_address + own.load_size_bytes
    if not (region.base_address < own_end and own.load_address < region.end_address):
        return []
    code = store.get(capture.code_digest)
    offsets = [
        (own.load_address + symbol.offset_bytes - region.base_address, symbol.size_bytes)
        for symbol in list_writable_data(code)
    ]
    return [(at, size) for at, size in offsets if at >= 0 and at + size <= region.size_bytes]


def _variables_at(capture: Capture, region: Region) -> Iterator[ModuleVariable]:
    """Variables of the kernel's own code object that are a region of their own."""
    digest = capture.code_digest
    for variable in capture.module_variables:
        where = (variable.address, variable.size_bytes)
        if variable.code_object == digest and where == (region.base_address, region.size_bytes):
            yield variable


def with_pre_state(capture: Capture, region: Region, pre: MemoryRef) -> Capture:
    """Return the capture with another pre-state of one region, and of a variable that lies there."""
    same = {variable.symbol for variable in _variables_at(capture, region)}
    variables = tuple(
        each.model_copy(update={"pre": pre}) if each.symbol in same else each
        for each in capture.module_variables
    )
    regions = tuple(
        each.model_copy(update={"pre": pre}) if each.base_address == region.base_address else each
        for each in capture.regions
    )
    return capture.model_copy(update={"regions": regions, "module_variables": variables})
