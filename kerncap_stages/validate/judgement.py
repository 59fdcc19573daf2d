"""The verdict: the result for each part of an output, and the reasons for people."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kerncap_stages.manifests.validation import Mode
from kerncap_stages.text.formats import count, format_size
from kerncap_stages.validate.compare.explained import WrongOutput, explain_wrong_outputs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from kerncap_stages.digest import MemoryRef
    from kerncap_stages.manifests.memory import Region
    from kerncap_stages.manifests.validation import Coverage
    from kerncap_stages.validate.arguments import Span
    from kerncap_stages.validate.compare.regions import RegionDifference
    from kerncap_stages.validate.fresh_states import InputChoice
    from kerncap_stages.validate.perturb.expectation import Expectation
    from kerncap_stages.validate.precision.measure import MeasuredOutput, Precision
    from kerncap_stages.validate.replays.baselines import BaselineRun
    from kerncap_stages.validate.replays.replayer import Run

NOTHING_KNOWN = (
    "the captured kernel is not known to write anything: this dispatch changed nothing, so there is nothing "
    "to compare; capture another one (--dispatch 0)"
)
UNREACHED_NOT_PERTURBED = (
    "memory not reachable from any known pointer was not perturbed: the captured kernel fails when it is"
)
BOUNDS_TOO_WIDE = (
    "the variant changes nothing, and is within the bounds only because the captured kernel changes less "
    "than they allow: use smaller bounds, or capture a dispatch that changes more"
)
NOT_FRESH = (
    "the inputs kept their captured values: the captured kernel completes from no fresh ones that were tried"
)
NOT_SEEN = (
    "fresh values in parts of {} change no output: the kernel may not read these parts, and a variant that "
    "holds the results for exactly the captured values of it passes"
)
ROUNDS_OTHERWISE = (
    "with fresh values of its inputs the variant rounds otherwise than the captured kernel, by at most 16 "
    "ULP of the largest element: it is byte-exact for the captured values"
)
SPECIAL_ALIKE = (
    "with fresh values of its inputs the variant gives NaN where the captured kernel gives an infinity, or "
    "the other way round: that is not compared, because the captured launch gave neither"
)
NOT_DETERMINISTIC = (
    "the captured kernel itself is not deterministic: floats may differ by 4 times what its own replays do"
)
NOT_EVERYWHERE = (
    "some regions could not be perturbed everywhere: the captured kernel does not complete then, or leaves "
    "perturbed values as they are, or they are too large"
)
FREE_ORDER = (
    "{}: elements were compared in any order, because runs of the captured kernel leave them in other places"
)
NOT_COMPARED = "{}: not compared in some states, because runs of the captured kernel differ in them"
OUTPUTS_DIFFER = "outputs differ from those of the captured kernel"
ALL_WRONG = "all elements of an output are wrong"
NOT_WRITTEN = "all elements of an output are wrong: perhaps the variant does not write it"
WRITES_ELSEWHERE = "the variant writes where the captured kernel does not"


@dataclass(frozen=True)
class PartVerdict:
    """The result for a part of a region; ``perturbed_base``: the region that was perturbed, if any.

    start: the values of the inputs, for people, if they were fresh ones. rounding: by how much elements may
    differ if only the order of operations is another; of parts with wrong elements.
    """

    region: Region
    part: Span
    found: RegionDifference
    perturbed_base: int | None
    start: str | None = None
    rounding: float = 0.0

    @property
    def name(self) -> str:
        """The part's name for people."""
        where = f"region {self.region.base_address:#x}"
        return f"{self.part.label} in {where}" if self.part.label else where

    @property
    def wrong(self) -> WrongOutput | None:
        """What is wrong with its elements; None if they are right."""
        if self.found.difference.passed:
            return None
        is_perturbed = self.perturbed_base is not None
        return WrongOutput(
            self.part.label or f"region {self.region.base_address:#x}",
            self.part.element_type,
            self.part.start,
            self.found.difference,
            self.rounding,
            self.start or ("a perturbed state" if is_perturbed else ""),
            is_fresh=self.start is not None,
        )


@dataclass(frozen=True)
class Guarded:
    """Guarded runs of a variant; ``opened`` as in ``Guard``. failure: why there were no more, or nothing."""

    size_bytes: int
    runs: int
    fresh_runs: int = 0
    opened: tuple[tuple[int, int], ...] = ()
    failure: str = ""


@dataclass(frozen=True)
class Judgement:
    """The verdict with its evidence. Each step of the judge returns a new one.

    failures: why it has failed, for people. remarks: what else they should know.
    """

    mode: Mode
    passed: bool = True
    failures: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    verdicts: tuple[PartVerdict, ...] = ()
    coverage: Coverage | None = None
    pre_states: int = 1
    perturbed_bytes: int = 0
    baseline_runs: int = 0
    variant_runs: int = 0
    nondeterministic_bytes: int = 0
    changes_expected: bool = False
    changes_made: bool = False  # by the variant, from any state
    own_bound: float | None = None  # the largest absolute one that the captured kernel's own differences give
    seed: int | None = None  # of the fresh values that were compared
    fresh_starts: frozenset[object] = frozenset()  # keys of the states with fresh values that were compared
    inputs_kept: bool = False  # all that are only read kept their captured values, against the request
    guarded: Guarded | None = None  # runs in which the variant could not write everywhere
    precision: tuple[MeasuredOutput, ...] = ()  # against the user's reference

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it has failed, and then the remarks, without duplicates.

        The first failure of outputs says by how much they differ.
        """
        reasons = list(dict.fromkeys((*self.failures, *self.remarks)))
        wrong = [each.wrong for each in self.verdicts]
        found = [each for each in wrong if each is not None]
        first = next((each for each in reasons if each in (OUTPUTS_DIFFER, ALL_WRONG, NOT_WRITTEN)), None)
        if found and first is not None:
            has_strays = any(each.found.stray_bytes for each in self.verdicts)
            why = explain_wrong_outputs(found, has_strays=has_strays)
            reasons[reasons.index(first)] = f"{first}: {why}"
        return tuple(reasons)

    @property
    def knows_writes(self) -> bool:
        """Whether any byte that the captured kernel writes was compared."""
        return any(verdict.found.written_bytes for verdict in self.verdicts)

    def note(self, *remarks: str) -> Judgement:
        """Add remarks."""
        return replace(self, remarks=(*self.remarks, *remarks))

    def allow(self, own: Iterable[float]) -> Judgement:
        """Note the bounds by which outputs may differ because those of the captured kernel itself do."""
        largest = max((*own, *(() if self.own_bound is None else (self.own_bound,))), default=None)
        if largest is None:
            return self
        allowed = replace(self, mode=Mode.NUMERIC, own_bound=largest)
        return allowed.note(NOT_DETERMINISTIC)

    def fail(self, *reasons: str) -> Judgement:
        """Fail and add the reasons; without a reason, return this judgement unchanged."""
        return replace(self, failures=(*self.failures, *reasons), passed=False) if reasons else self


def find_kept(inputs: Iterable[Region], runs: Sequence[BaselineRun]) -> list[Region]:
    """Find the inputs that have their captured values in all these runs, and do not change in the first."""
    return [
        each
        for each in inputs
        if all(run.start.perturbed_states.get(each.base_address, each.pre) == each.pre for run in runs)
        and each.base_address not in runs[0].changed
    ]


def explain_kept(inputs: Iterable[Sequence[Span]]) -> list[str]:
    """Name the inputs that kept their captured values beside others that did not; for each, its parts."""
    names = _name_parts(inputs)
    return [f"these inputs kept their captured values: {names}"] if names else []


def explain_not_fresh(inputs: InputChoice, find_parts: Callable[[Region], Sequence[Span]]) -> Iterator[str]:
    """Name inputs that are too large for fresh values, or have them in parts. ``find_parts``: of a region.

    Regions that the dispatch changed are named only if no other memory has fresh values.
    """
    kept = [each for each in inputs.kept if not inputs.fresh or not each.written_size_bytes]
    if kept:
        yield (
            f"too large for fresh values ({_format_sizes(kept)}): {_name_parts(map(find_parts, kept))}; a "
            "variant that holds the results for exactly the captured values passes"
        )
    in_parts = [each for each in inputs.fresh if each.base_address in inputs.in_parts]
    if in_parts:
        fresh = format_size(sum(inputs.in_parts.values()))
        yield (
            f"too large for fresh values everywhere ({_format_sizes(in_parts)}): "
            f"{_name_parts(map(find_parts, in_parts))}; of that, {fresh} have them, chosen by the seed"
        )


def explain_seed(seed: int) -> str:
    """Tell how to judge from the same fresh values again, and how without any."""
    return (
        f"its inputs had fresh values: `--seed {seed}` repeats them; `--captured-values` leaves them out, if "
        "the program never gives its kernel such inputs"
    )


def are_too_large(inputs: InputChoice) -> bool:
    """Whether there are inputs that the dispatch did not change, and all of them keep captured values."""
    return all(each.written_size_bytes for each in inputs.fresh) and not all(
        each.written_size_bytes for each in inputs.kept
    )


def note_unseen(judgement: Judgement, unseen: Iterable[Sequence[Span]]) -> Judgement:
    """Note the inputs, by their parts, whose fresh values change no output."""
    names = _name_parts(unseen)
    return replace(judgement.note(NOT_SEEN.format(names)), inputs_kept=True) if names else judgement


def explain_unreached(regions: Sequence[Region]) -> list[str]:
    """Explain that memory was not perturbed because that would take too long."""
    if not regions:
        return []
    return [
        f"not perturbed: {_describe_size(regions)} not reachable from any known pointer"
        "; if a variant does not write an output there that already has the right value, that goes unnoticed"
    ]


def explain_own(wanted: Expectation, parts: Iterable[tuple[Region, Span]]) -> list[str]:
    """Name the parts of regions that were compared in any order, and those that were not compared."""
    known = [(region.base_address, part.start, part.label) for region, part in parts]
    return [
        what.format(label or f"region {base:#x}")
        for places, what in ((wanted.free, FREE_ORDER), (wanted.nondeterministic, NOT_COMPARED))
        for base, start, label in known
        if (base, start) in places and (what == NOT_COMPARED or (base, start) not in wanted.nondeterministic)
    ]


def _name_parts(inputs: Iterable[Sequence[Span]]) -> str:
    return ", ".join(sorted({part.label or "memory without a name" for parts in inputs for part in parts}))


def _describe_size(regions: Sequence[Region]) -> str:
    return f"{count(len(regions), 'region')} ({_format_sizes(regions)})"


def _format_sizes(regions: Iterable[Region]) -> str:
    return format_size(sum(region.size_bytes for region in regions))


def judge_precision(
    precision: Precision,
    judgement: Judgement,
    wanted: Expectation,
    run: Run,
    replay_again: Callable[[], Run] | None = None,
) -> Judgement:
    """Fail a variant that is less exact than the captured kernel, if there is a reference to measure both by.

    replay_again: replays the captured kernel from the same state. Raises what ``Precision.measure`` raises.
    """

    def list_again() -> list[Mapping[int, MemoryRef]]:
        again = run if replay_again is None else replay_again()
        return [again.outputs, *again.differing]

    measured = precision.measure(
        wanted.start,
        wanted.expected,
        (run.outputs, *run.differing),
        None if replay_again is None else list_again,
    )
    judgement = replace(judgement, precision=(*judgement.precision, *measured.outputs))
    judgement = judgement.note(*measured.notes)
    return judgement.fail(*(why for output in measured.outputs for why in output.explain_failure()))
