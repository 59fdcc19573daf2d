"""Measures how exact a variant and the captured kernel are, against the user's reference.

The reference is run once for each state in which outputs are compared: the captured one, and the one with
fresh values. A reference that is itself further from the captured kernel than the bounds allow is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import ml_dtypes

from kerncap_stages.errors import Refused, UsageError
from kerncap_stages.store.chunks import read_range
from kerncap_stages.text.terminal import make_printable
from kerncap_stages.validate.compare.bounds import FLOAT_TYPES
from kerncap_stages.validate.compare.elements import find_dtype
from kerncap_stages.validate.perturb.start import Start
from kerncap_stages.validate.precision.errors import measure_errors
from kerncap_stages.validate.precision.given import list_given
from kerncap_stages.validate.precision.process import run_reference

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kerncap_stages.digest import MemoryRef
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.source import Source
    from kerncap_stages.store import Store
    from kerncap_stages.validate.arguments import Pointer
    from kerncap_stages.validate.compare.bounds import Bounds
    from kerncap_stages.validate.precision.errors import Errors
    from kerncap_stages.validate.precision.file import ReferenceFile
    from kerncap_stages.validate.precision.given import Given
    from kerncap_stages.validate.precision.process import TrueOutput

_CAPTURED, _FRESH = "for the captured inputs", "for fresh values of the inputs"
_WRONG = "correct the reference; if the captured kernel itself is so inexact, give wider bounds"


@dataclass(frozen=True)
class MeasuredOutput:
    """The errors in an output, in a state. ``true``, ``actual``: at the variant's largest error."""

    given: Given
    element_type: str
    is_fresh: bool
    errors: Errors
    address: int
    true: float
    actual: float

    def explain_failure(self) -> list[str]:
        """Say why a variant is less exact than the captured kernel; nothing if it is not."""
        if self.errors.passed:
            return []
        group = self.errors.decisive
        worst, label = group.worst, make_printable(self.given.label)
        among = f", among elements from {group.low:.3g} to {group.high:.3g}"
        return [
            f"less exact than the captured kernel: {worst.name} error {worst.variant:.3g} of {label}, the "
            f"captured kernel's {worst.captured:.3g}, {worst.factor:g} times of which is allowed"
            + (among if len(self.errors.groups) > 1 else "")
            + (f", {_FRESH}" if self.is_fresh else "")
        ]

    def explain_values(self) -> list[str]:
        """Say what is odd about the true values.

        The captured kernel may be many ULP from them: is the reference the right one? Fresh values may all be
        zeros, if an input is a small part of memory that holds zeros.
        """
        if self.is_fresh and self.errors.largest == 0.0:
            return [
                f"{make_printable(self.given.label)} is all zeros {_FRESH}, which tell nothing of precision"
            ]
        limits = ml_dtypes.finfo(find_dtype(self.element_type))  # type: ignore[no-untyped-call]
        if self.is_fresh or self.errors.ulps <= float(limits.eps) ** -0.5:
            return []
        return [
            f"the captured kernel's {make_printable(self.given.label)} is {self.errors.ulps:.3g} ULP from "
            "the reference, which is much: is it the reference of this kernel?"
        ]


@dataclass(frozen=True)
class Measured:
    """What was measured in one state. ``notes``: for people."""

    outputs: tuple[MeasuredOutput, ...]
    notes: tuple[str, ...]


class Settings(Protocol):
    """What a verdict's settings say of precision."""

    @property
    def reference(self) -> ReferenceFile | None:
        """The reference, if there is one."""

    @property
    def bounds(self) -> Bounds:
        """The bounds that the captured kernel must keep, too."""

    @property
    def default_type(self) -> str | None:
        """The type of the elements of outputs."""

    @property
    def timeout_s(self) -> float:
        """How long the reference may run."""


class Precision:
    """Measures a variant of one capture against the user's reference; does nothing without one."""

    def __init__(
        self,
        store: Store,
        capture: Capture,
        source: Source | None,
        arguments: Sequence[Pointer],
        settings: Settings,
    ) -> None:
        """``arguments``: those that are pointers."""
        self._store = store
        self._capture = capture
        self._settings = settings
        self._given: Sequence[Given] = ()
        if settings.reference is not None:
            self._given = list_given(capture, source, arguments, settings.default_type)
        self._computed: dict[object, list[TrueOutput]] = {}

    def check(self, golden: Mapping[int, MemoryRef]) -> None:
        """Run the reference for the captured inputs. Raises UsageError or Refused if it is no use."""
        start = Start(self._store, self._capture)
        for output in self._compute(start):
            self._measure(output, start, golden, golden)

    def measure(
        self,
        start: Start,
        expected: Mapping[int, MemoryRef],
        found: Sequence[Mapping[int, MemoryRef]],
        replay_again: Callable[[], Sequence[Mapping[int, MemoryRef]]] | None = None,
    ) -> Measured:
        """Measure what runs of a variant left, against what the captured kernel did.

        replay_again: replays the captured kernel from the same state: if that does not repeat an output, a
        reference that is far from it is not refused.
        Raises UsageError if the reference fails, Refused if it is wrong.
        """
        made: list[MeasuredOutput] = []
        notes: list[str] = []
        for output in self._compute(start):
            for each in found:
                try:
                    measured = self._measure(output, start, expected, each)
                except Refused:
                    if replay_again is None or self._repeats(output, (expected, *replay_again())):
                        raise
                    notes.append(
                        f"{output.given.label}: the captured kernel's replays differ {_FRESH}, so its "
                        "precision was judged for the captured ones only"
                    )
                    break
                if measured is not None:
                    made.append(measured)
                    notes += measured.explain_values()
        if self._settings.reference is not None and not start.is_perturbed:
            notes += self._explain_not_given(self._compute(start), start, expected)
        return Measured(tuple(made), tuple(notes))

    def _compute(self, start: Start) -> list[TrueOutput]:
        reference = self._settings.reference
        if reference is None:
            return []
        if start.key not in self._computed:
            self._computed[start.key] = run_reference(
                self._store,
                reference,
                self._capture,
                self._given,
                start.pre_states,
                self._settings.timeout_s,
                self._name_state(start),
            )
        return self._computed[start.key]

    def _measure(
        self,
        output: TrueOutput,
        start: Start,
        expected: Mapping[int, MemoryRef],
        actual: Mapping[int, MemoryRef],
    ) -> MeasuredOutput | None:
        """Measure one output; None if the captured kernel makes no finite number there.

        Raises UsageError for an output that cannot be measured, Refused for a wrong one.
        """
        given, view = output.given, output.given.view
        what = f"{self._name}: {make_printable(given.label)}"
        if view is not None and view.base_address not in expected:
            return None  # outputs that differ between replays are not judged
        if view is None:
            raise UsageError(f"{what} is no captured memory", hint="leave it out of what `reference` returns")
        if view.element_type not in FLOAT_TYPES:
            raise UsageError(
                f"{what} holds {view.element_type or 'elements of unknown type'}, and precision is judged "
                "for floats",
                hint="leave it out of what `reference` returns, or give the type of outputs with --dtype",
            )
        true = output.values
        if view.shape is not None and true.shape != view.shape:
            raise UsageError(
                f"{what} has the shape {view.shape}, but `reference` returned {true.shape}",
                hint="return an array of the shape that the argument has",
            )
        if not 0 < true.size <= view.elements:
            raise UsageError(
                f"{what} has {view.elements:,} elements, but `reference` returned {true.size:,}",
                hint="return the elements from the first one on that the kernel writes",
            )
        true = true.reshape(-1)
        captured, variant = (
            view.read(self._store, each[view.base_address], true.size).reshape(-1)
            for each in (expected, actual)
        )
        errors = measure_errors(true, captured, variant, view.element_type)
        if errors is None:
            return None
        self._require_near(what, start, errors, true, captured, view.element_type)
        place = errors.worst
        return MeasuredOutput(
            given,
            view.element_type,
            start.is_fresh,
            errors,
            view.base_address + view.start + view.find_offset(place),
            float(true[place]),
            float(variant[place]),
        )

    def _require_near(
        self, what: str, start: Start, errors: Errors, true: Any, captured: Any, element_type: str
    ) -> None:
        """Raise Refused if the reference is further from the captured kernel than the bounds allow.

        Relative bounds apply to the largest element: sums may cancel.
        """
        state = self._name_state(start)
        if errors.invalid is not None:
            at = errors.invalid
            raise Refused(
                f"{what}: the reference gives {float(true[at])} at element {at:,}, where the captured kernel "
                f"gives {float(captured[at])}, {state}",
                hint=_WRONG,
            )
        bounds = self._settings.bounds
        if bounds.is_exact:
            return
        epsilon = float(ml_dtypes.finfo(find_dtype(element_type)).eps)  # type: ignore[no-untyped-call]
        relative = (bounds.rtol or 0.0) + (bounds.ulp or 0) * epsilon
        allowed = (bounds.atol or 0.0) + relative * errors.largest
        # Half a unit in the last place is the least error that any kernel can have.
        allowed = max(allowed, epsilon * errors.largest)
        if errors.captured.max_absolute > allowed:
            at = errors.furthest
            raise Refused(
                f"{what}: the reference is {errors.captured.max_absolute:.3g} from the captured kernel, more "
                f"than the bounds allow ({allowed:.3g}), {state}: element {at:,} is {float(true[at])!r} "
                f"there, and {float(captured[at])!r} in the captured kernel's output",
                hint=_WRONG,
            )

    def _repeats(self, output: TrueOutput, states: Sequence[Mapping[int, MemoryRef]]) -> bool:
        """Whether all these states hold the same output."""
        view = output.given.view
        if view is None:
            return True
        found = [
            view.read(self._store, state[view.base_address], output.values.size).tobytes()
            for state in states
            if view.base_address in state
        ]
        return all(each == found[0] for each in found)

    def _explain_not_given(
        self, outputs: Sequence[TrueOutput], start: Start, expected: Mapping[int, MemoryRef]
    ) -> Iterator[str]:
        """Name outputs, or parts of them, that the captured kernel writes and the reference does not give."""
        pre_states = start.pre_states
        by_number = {id(output.given): output for output in outputs}
        for given in self._given:
            view = given.view
            if view is None or given.is_const or view.element_type not in FLOAT_TYPES:
                continue
            before, after = pre_states.get(view.base_address), expected.get(view.base_address)
            if before is None or after is None or before == after:
                continue
            output = by_number.get(id(given))
            end = self._find_end(given)
            written = read_range(self._store, before, view.start, end) != read_range(
                self._store, after, view.start, end
            )
            if output is not None:
                written &= ~view.mark(output.values.size)[: written.size]
            if written.any():
                label = make_printable(given.label)
                what, why = (f"precision of {label}", "does not give it")
                if output is not None:
                    what, why = f"precision of a part of {label}", f"gives {output.values.size:,} elements"
                yield f"{what} was judged against the captured kernel only: the reference {why}"

    def _find_end(self, given: Given) -> int:
        """Return where an output ends in its region: where another argument begins, at the latest."""
        assert given.view is not None
        views = [each.view for each in self._given if each.view is not None]
        starts = [
            view.start
            for view in views
            if view.base_address == given.view.base_address and view.start > given.view.start
        ]
        return min([given.view.end, *starts])

    @property
    def _name(self) -> str:
        return "" if self._settings.reference is None else self._settings.reference.name

    def _name_state(self, start: Start) -> str:
        if not start.is_fresh:
            return _CAPTURED
        seed = next(trial.seed for trial in start.trials if trial.is_fresh)
        return f"{_FRESH} (--seed {seed})"
