"""The state that a replay starts from: the captured one, or one with perturbed regions."""

from __future__ import annotations

from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING

from kerncap_stages.code.code_object import list_writable_data
from kerncap_stages.digest import MemoryRef
from kerncap_stages.manifests.memory import MemoryKind
from kerncap_stages.replay.plan import find_own_code
from kerncap_stages.validate.perturb.address_ranges import find_captured_ranges
from kerncap_stages.validate.perturb.fresh import Variety
from kerncap_stages.validate.perturb.states import Perturbation, perturb, perturb_freshly

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence, Set

    import numpy as np
    import numpy.typing as npt

    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.memory import ModuleVariable, Region
    from kerncap_stages.store import Store, Transaction
    from kerncap_stages.validate.perturb.address_ranges import AddressRanges
    from kerncap_stages.validate.perturb.states import MadeValues, Trial


# One thread writes what differs, and reads all of it after the run.
MAX_CHANGED_BYTES = 64 << 20
# Up to these limits the whole state is restored between runs; beyond them, only what the captured kernel
# writes.
_MAX_REGIONS = 1000
_MAX_BYTES = 2 << 30
_MAX_SOFTWARE_BYTES = 256 << 20
_NAMES = {
    Variety.ALL: "{}",
    Variety.FEW: "{} in few elements",
    Variety.FEW_OTHERS: "{} in few other elements",
    Variety.SIGNS: "the captured values with other signs",
    Variety.MIRRORED: "{} with other signs",
    Variety.ZEROS: "{} with more zeros",
    Variety.LONE: "the captured values with other numbers that stand alone, or other addresses",
}


class Start:
    """The start of a replay. Perturbed regions are made when a caller first needs them, in any thread."""

    def __init__(
        self,
        store: Store,
        captured: Capture,
        *trials: Trial,
        known: Mapping[int, MemoryRef] | None = None,
        values: MadeValues | None = None,
    ) -> None:
        """``known``: perturbed pre-states that an earlier validation kept, by base address.

        values: gets fresh values that are made.
        """
        self.trials = trials
        self._store = store
        self._captured = captured
        self._known = known or {}
        self._values = values
        self._lock = Lock()

    @property
    def is_perturbed(self) -> bool:
        """Whether any region is perturbed."""
        return bool(self.trials)

    @property
    def key(self) -> tuple[tuple[int, str, int, str], ...]:
        """Distinguishes this start from others of the same capture."""
        return tuple(
            (trial.region.base_address, trial.perturbation, trial.seed, trial.variety)
            for trial in self.trials
        )

    @property
    def is_fresh(self) -> bool:
        """Whether any region has fresh values."""
        return any(trial.is_fresh for trial in self.trials)

    @property
    def variety(self) -> Variety | None:
        """Which of the states with fresh values it is; None if it has none."""
        return next((trial.variety for trial in self.trials if trial.is_fresh), None)

    @property
    def fresh_name(self) -> str | None:
        """The values of the inputs, for people; None if none are fresh."""
        kinds = {trial.perturbation for trial in self.trials if trial.is_fresh}
        return None if self.variety is None else name_fresh_values(kinds, self.variety)

    @property
    def capture(self) -> Capture:
        """The capture with the pre-states of this start."""
        with self._lock:
            return self._made[0]

    @cached_property
    def _made(self) -> tuple[Capture, Mapping[int, MemoryRef]]:
        made = self._captured
        found = dict(self._known)
        lacking = [trial for trial in self.trials if trial.region.base_address not in found]
        if lacking:
            # One transaction for all of them, since each makes its objects durable.
            with self._store.begin_transaction() as transaction:
                for trial in lacking:
                    found[trial.region.base_address] = self._perturb(transaction, trial)
                transaction.publish_objects()
        variables: list[tuple[Region, MemoryRef]] = []
        for trial in self.trials:
            pre = found[trial.region.base_address]
            if is_region(self._captured, trial.region):
                made = replace_pre_state(made, trial.region, pre)
            else:
                variables.append((trial.region, pre))
        return replace_variables(self._store, made, variables), found

    def _perturb(self, transaction: Transaction, trial: Trial) -> MemoryRef:
        variables = (
            find_variable_ranges(self._store, self._captured, trial.region) if trial.of_variables else ()
        )
        return perturb(self._store, transaction, trial, variables, self._ranges, self._values)

    @cached_property
    def _ranges(self) -> AddressRanges:
        return find_captured_ranges(self._captured)

    @property
    def changes(self) -> dict[int, MemoryRef] | None:
        """The states of the perturbed regions; None if a replay cannot change them between its runs.

        Those are code objects, module variables that are regions, which a variant has elsewhere, memory that
        the program could not write, and so much memory that a process of its own is faster. Of a code object
        a replay changes the variables in it, in a variant, too.
        """
        if sum(trial.perturbed_bytes for trial in self.trials) > MAX_CHANGED_BYTES:
            return None
        changed = set()
        for region in (trial.region for trial in self.trials):
            if not is_region(self._captured, region):
                changed.add(find_around(self._captured, region).base_address)
                continue
            is_fixed = region.kind is MemoryKind.CODE_OBJECT or region.read_only
            if is_fixed or any(_find_variables_at(self._captured, region)):
                return None
            changed.add(region.base_address)
        states = self.pre_states
        return {base: states[base] for base in sorted(changed)}

    @property
    def pre_states(self) -> dict[int, MemoryRef]:
        """The memory of each region at the start, by base address."""
        return {region.base_address: region.pre for region in self.capture.regions if region.pre is not None}

    @property
    def perturbed_states(self) -> dict[int, MemoryRef]:
        """The memory of what was perturbed, also of variables that are parts of regions, by base address."""
        bases = [trial.region.base_address for trial in self.trials]
        with self._lock:
            return {base: self._made[1][base] for base in bases}


def make_fresh_starts(
    store: Store, captured: Capture, choices: Sequence[Sequence[Trial]], values: MadeValues | None = None
) -> list[Start]:
    """Return the starts of which each has these trials, which differ in their variety alone.

    Each region is read once, unless ``values`` has it, and all states become durable together.
    """
    ranges = find_captured_ranges(captured)
    known: list[dict[int, MemoryRef]] = [{} for _ in choices]
    with store.begin_transaction() as transaction:
        for trials in zip(*choices, strict=True):
            made = perturb_freshly(store, transaction, trials, ranges, values)
            for states, state in zip(known, made, strict=True):
                states[trials[0].region.base_address] = state
        transaction.publish_objects()
    return [
        Start(store, captured, *trials, known=states) for trials, states in zip(choices, known, strict=True)
    ]


def can_put_back(capture: Capture) -> bool:
    """Whether restoring the whole state, region by region, is fast."""
    most_bytes = _MAX_SOFTWARE_BYTES if capture.device.software else _MAX_BYTES
    return capture.size_bytes <= most_bytes and len(capture.regions) <= _MAX_REGIONS


def find_variable_ranges(store: Store, capture: Capture, region: Region) -> list[tuple[int, int]]:
    """Return (offset, length) of the writable variables of the kernel's code object in a region."""
    if region.kind is not MemoryKind.CODE_OBJECT or region.pre is None or region.read_only:
        return []
    own = find_own_code(capture)
    if own is None:
        # If the code object has no address (CUDA), each of its variables is a region.
        return [(0, region.size_bytes) for each in _find_variables_at(capture, region) if not each.is_const]
    # A program may have hundreds of other code objects; the kernel's is not read for each of their regions.
    own_end = own.load_address + own.load_size_bytes
    if not (region.base_address < own_end and own.load_address < region.end_address):
        return []
    code = store.get_kept(capture.code_digest)
    offsets = [
        (own.load_address + symbol.offset_bytes - region.base_address, symbol.size_bytes)
        for symbol in list_writable_data(code)
    ]
    return [(at, size) for at, size in offsets if at >= 0 and at + size <= region.size_bytes]


def _find_variables_at(capture: Capture, region: Region) -> Iterator[ModuleVariable]:
    """Yield the variables of the kernel's code object that are this whole region."""
    digest = capture.code_digest
    for variable in capture.module_variables:
        where = (variable.address, variable.size_bytes)
        if variable.code_object == digest and where == (region.base_address, region.size_bytes):
            yield variable


def replace_pre_state(capture: Capture, region: Region, pre: MemoryRef) -> Capture:
    """Return the capture with another pre-state of one region, or variable, and of a variable that is it."""
    same = {variable.symbol for variable in _find_variables_at(capture, region)}
    variables = tuple(
        each.model_copy(update={"pre": pre}) if each.symbol in same else each
        for each in capture.module_variables
    )
    regions = tuple(
        each.model_copy(update={"pre": pre})
        if (each.base_address, each.size_bytes) == (region.base_address, region.size_bytes)
        else each
        for each in capture.regions
    )
    return capture.model_copy(update={"regions": regions, "module_variables": variables})


def is_region(capture: Capture, region: Region) -> bool:
    """Whether it is a whole region of the capture, and not a module variable in one."""
    where = (region.base_address, region.size_bytes)
    return any((each.base_address, each.size_bytes) == where for each in capture.regions)


def find_around(capture: Capture, variable: Region) -> Region:
    """Return the region that a module variable is a part of."""
    return next(each for each in capture.regions if each.contains(variable.base_address))


def replace_variables(
    store: Store, capture: Capture, variables: Sequence[tuple[Region, MemoryRef]]
) -> Capture:
    """Return the capture with other pre-states of module variables, which are parts of regions."""
    contents: dict[int, tuple[Region, npt.NDArray[np.uint8]]] = {}
    for variable, pre in variables:
        around = find_around(capture, variable)
        if around.pre is None:
            raise ValueError("the region has no pre-state")
        if around.base_address not in contents:
            contents[around.base_address] = (around, store.read_memory(around.pre.digest))
        at = variable.base_address - around.base_address
        contents[around.base_address][1][at : at + variable.size_bytes] = store.read_memory(pre.digest)
        capture = replace_pre_state(capture, variable, pre)
    if contents:
        with store.begin_transaction() as transaction:
            made = [
                (around, MemoryRef.to(transaction.put_memory(content)))
                for around, content in contents.values()
            ]
            transaction.publish_objects()
        for around, pre in made:
            capture = replace_pre_state(capture, around, pre)
    return capture


def name_fresh_values(kinds: Set[Perturbation], variety: Variety) -> str:
    """Name the fresh values of a state for people. ``kinds``: those of its inputs."""
    values = "fresh values"
    near = {Perturbation.FRESH_NEAR, Perturbation.FRESH_IN_PLACE}
    if kinds <= {*near, Perturbation.FRESH_FLOATS}:
        values = "near values" if kinds & near else "fresh floats"
    return _NAMES[variety].format(values)
