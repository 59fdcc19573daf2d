"""The page of an evaluation, and its lines and its table on the terminal."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kerncap_stages.evaluate.ranking import order
from kerncap_stages.manifests.evaluation import Outcome
from kerncap_stages.manifests.os_strings import to_os_string
from kerncap_stages.pages.parts import list_facts, make_heading, make_table
from kerncap_stages.pages.shared import make_environment_section
from kerncap_stages.text import formats

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from kerncap_stages.digest import Digest
    from kerncap_stages.manifests.evaluation import EvaluatedVariant, Evaluation

_WORDS = {
    Outcome.RIGHT: "right",
    Outcome.WRONG: "wrong",
    Outcome.NOT_BUILT: "not built",
    Outcome.REFUSED: "refused",
    Outcome.UNJUDGED: "not judged",
}


def render(evaluation: Evaluation) -> Iterator[RenderableType]:
    """Show the counts, then all variants, the fastest first."""
    yield make_heading("Evaluation")
    yield list_facts(
        [
            ("kernel", evaluation.kernel_name),
            *(
                (
                    "capture",
                    " ".join(
                        filter(None, (case.capture.digest.short, case.launch, _tell_held_out(case.held_out)))
                    ),
                )
                for case in evaluation.cases
            ),
            ("bounds", "byte for byte" if evaluation.tolerance is None else _describe_bounds(evaluation)),
            ("complete", formats.format_yes_no(evaluation.complete)),
            *(("result", line) for line in summarise(evaluation)),
        ]
    )
    yield make_heading("Variants")
    yield _make_table(evaluation, order(evaluation.variants), "=variant")
    yield from make_environment_section(evaluation.environment)


def make_ranks(evaluation: Evaluation, most: int) -> RenderableType | None:
    """Return a table of the fastest variants; None if none is right."""
    ranked = [each for each in order(evaluation.variants) if each.outcome is Outcome.RIGHT]
    return _make_table(evaluation, ranked[:most], "variant") if ranked else None


def summarise(evaluation: Evaluation) -> Iterator[str]:
    """Yield the lines that end an evaluation: how many variants are right, and which is the best."""
    counts = Counter(each.outcome for each in evaluation.variants)
    parts = [f"{counts[outcome]:,} {word}" for outcome, word in _WORDS.items() if counts[outcome]]
    twins = sum(each.same_as is not None for each in evaluation.variants)
    same = f"; {twins:,} the same as another one" if twins else ""
    yield f"{formats.count(len(evaluation.variants), 'variant')}: {', '.join(parts) or 'none'}{same}"
    best = next((each for each in order(evaluation.variants) if each.rank == 1), None)
    if best is not None and best.ratio is not None:
        yield f"Best: {best.ratio:.3f} of the captured kernel's {_name_measure(evaluation)}  {name_of(best)}"
        if (least_ns := _find_least_ns(best)) is not None:
            least, times = formats.format_duration(least_ns), _sum_times(best) / least_ns
            yield f"Floor: what must be written takes at least {least}; the best takes {times:.3g} times that"
    if len(evaluation.devices) > 1:
        kinds = "; ".join(evaluation.devices)
        yield f"note: the times are from different GPUs, so ranks say little: {kinds}. Use nodes of one kind"


def point_to_reasons(evaluation: Evaluation, digest: Digest) -> str:
    """Name the command that shows why variants are not right."""
    number = formats.count(len(evaluation.variants), "variant")
    return f"`kc-show {digest.short}` shows {number} with reasons and verdicts"


def format_line(variant: EvaluatedVariant) -> str:
    """Return the line of a variant: what became of it, its ratio, its name, and why it is not right."""
    ratio = "-" if variant.ratio is None else f"{variant.ratio:.3f}"
    line = f"{_WORDS[variant.outcome]:10} {ratio:>7}  {name_of(variant)}"
    if len(variant.cases) > 1 and variant.outcome is Outcome.WRONG:
        line += f": right for {_count_passed(variant)}"
    if variant.outcome is not Outcome.RIGHT and variant.reasons:
        line += f": {variant.reasons[0]}"
    return line


def name_of(variant: EvaluatedVariant) -> str:
    """Return the variant's name as the system has it."""
    return to_os_string(variant.name)


def _make_table(evaluation: Evaluation, variants: Sequence[EvaluatedVariant], name: str) -> RenderableType:
    """``name``: the title of the variants' column."""
    measure = [">instructions" if _is_counted(evaluation) else ">time"]
    has_floor = any(_find_least_ns(each) is not None for each in evaluation.variants)
    return make_table(
        [">rank", "=result", ">ratio", *measure, *[">time / floor"] * has_floor, name, "remarks"],
        (
            (
                "" if each.rank is None else str(each.rank),
                _WORDS[each.outcome],
                "" if each.ratio is None else f"{each.ratio:.3f}",
                _format_measure(each),
                *[_format_floor_ratio(each)] * has_floor,
                _name_with_flags(each),
                _make_remarks(evaluation, each),
            )
            for each in variants
        ),
    )


def _name_with_flags(variant: EvaluatedVariant) -> str:
    """Return the name, and the flags that it does not say: kc-tune's names hold the values."""
    name = name_of(variant)
    flags = [flag for flag in map(to_os_string, variant.flags) if flag.removeprefix("-D") not in name]
    return " ".join((name, *flags))


def _make_remarks(evaluation: Evaluation, variant: EvaluatedVariant) -> str:
    remarks = []
    if variant.same_as is not None:
        remarks.append(f"the same as {name_of(evaluation.variants[variant.same_as])}")
    if len(variant.cases) > 1 and variant.outcome is not Outcome.RIGHT:
        remarks.append(f"right for {_count_passed(variant)}")
    found = (case.verdict for case in variant.cases if case.passed is False and case.verdict is not None)
    shown = [f"`kc-show {verdict.digest.short}`" for verdict in found]
    return "; ".join((*remarks, *variant.reasons, *shown[:1]))


def _count_passed(variant: EvaluatedVariant) -> str:
    return f"{sum(bool(case.passed) for case in variant.cases)} of {len(variant.cases)} cases"


def _format_measure(variant: EvaluatedVariant) -> str:
    times = [case.time for case in variant.cases if case.time is not None]
    if variant.ratio is None or not times:
        return ""
    if times[0].variant_instructions is not None:
        return f"{sum(each.variant_instructions or 0 for each in times):,}"
    return formats.format_duration(_sum_times(variant))


def _format_floor_ratio(variant: EvaluatedVariant) -> str:
    """Its time, divided by the least time of what it must write; nothing if one of them is not known."""
    least_ns = _find_least_ns(variant)
    return "" if variant.ratio is None or least_ns is None else f"{_sum_times(variant) / least_ns:.3g}"


def _sum_times(variant: EvaluatedVariant) -> float:
    return sum(case.time.variant_ns or 0.0 for case in variant.cases if case.time is not None)


def _find_least_ns(variant: EvaluatedVariant) -> float | None:
    """Return the least time of all its cases together on its GPU; None if that of one is not known."""
    found = [None if case.time is None else case.time.least_ns for case in variant.cases]
    known = [each for each in found if each]
    return sum(known) if known and len(known) == len(found) else None


def _is_counted(evaluation: Evaluation) -> bool:
    times = (case.time for each in evaluation.variants for case in each.cases)
    return any(time is not None and time.variant_instructions is not None for time in times)


def _name_measure(evaluation: Evaluation) -> str:
    return "instructions (software GPU, not a time)" if _is_counted(evaluation) else "time"


def _tell_held_out(held_out: bool) -> str:
    return "(held out)" if held_out else ""


def _describe_bounds(evaluation: Evaluation) -> str:
    bounds = evaluation.tolerance
    assert bounds is not None
    given = {"absolute": bounds.absolute, "relative": bounds.relative, "ULP": bounds.ulp}
    return ", ".join(f"{name} {value:g}" for name, value in given.items() if value is not None)
