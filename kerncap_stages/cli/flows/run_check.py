"""What `kc-run --check` does: capture the kernel's first dispatches, and judge the variant on each.

The first dispatch of each kernel gets a whole verdict, as kc-validate gives it: from further states, too. A
variant that keeps the result of its first launch is right from each captured state, in a process of its own.
The later dispatches are judged from their captured states alone.
"""

from __future__ import annotations

import contextlib
import os
import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.cli.progress import show_lines
from kerncap_stages.cli.store_option import add_store_option
from kerncap_stages.collect.capture import CaptureOptions, run_capture
from kerncap_stages.errors import ArtifactError
from kerncap_stages.manifests.capture import NameMatch, Selection
from kerncap_stages.pages.scope import format_tried
from kerncap_stages.pages.verdict import count_regions, format_footer, format_lines
from kerncap_stages.replay.variant import explain_unfit
from kerncap_stages.text.formats import format_shape
from kerncap_stages.validate.engine import judge_now
from kerncap_stages.validate.judgement import NOTHING_KNOWN
from kerncap_stages.validate.request import JudgeSettings, read_request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kerncap_stages.cli.flows.run_variants import ChosenVariant
    from kerncap_stages.collect.program import ProgramSpec
    from kerncap_stages.digest import Digest
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.validation import Validation
    from kerncap_stages.store import Store
    from kerncap_stages.validate.request import Request


@dataclass(frozen=True)
class CheckRequest:
    """How many dispatches of each kernel are compared, and how. any_code: as in a run.

    settings: of the whole verdict on the first of them.
    """

    count: int
    settings: JudgeSettings
    any_code: bool


@dataclass(frozen=True)
class CheckedDispatch:
    """A dispatch that was captured for a check.

    verdict, passed: None if there was nothing to compare, or the variant will not run there; ``why`` says so.
    is_whole: the verdict is also on further states; else on the captured one alone.
    """

    variant: ChosenVariant
    process_id: int
    number: int  # among those of the kernel in its process, from 0
    capture: Digest
    verdict: Digest | None = None
    passed: bool | None = None
    why: str | None = None
    is_whole: bool = False


def explain_failed_check(checked: Sequence[CheckedDispatch]) -> str | None:
    """Explain why the program must not run with the variants; None if they were right and compared at all."""
    compared = [each for each in checked if each.passed is not None]
    if not compared:
        return "the variant was compared in no dispatch"
    if wrong := sum(not each.passed for each in compared):
        return f"the variant was wrong in {wrong} of {len(compared)} compared dispatches"
    return None


def check_dispatches(
    store: Store,
    spec: ProgramSpec,
    variants: Sequence[ChosenVariant],
    wanted: CheckRequest,
    tell: Callable[[str], None],
) -> list[CheckedDispatch]:
    """Compare the variant with the captured kernel from the states of its first dispatches in a run.

    Runs the program with its own kernels, without input and with its output dropped, until they are captured.
    Captures of dispatches in which the variant was wrong are listed afterwards, for who looks into it. The
    others are not: the latest capture stays what it was. Verdicts refer to them.
    """
    captured: list[Digest] = []
    found: list[CheckedDispatch] = []
    try:
        found += _check_all(store, spec, variants, wanted, tell, captured)
    finally:
        wrong = {each.capture for each in found if each.passed is False}
        for digest in captured:
            if digest not in wrong:
                with contextlib.suppress(ArtifactError):  # somebody else took it off the list
                    store.remove(digest)
    return found


def _check_all(
    store: Store,
    spec: ProgramSpec,
    variants: Sequence[ChosenVariant],
    wanted: CheckRequest,
    tell: Callable[[str], None],
    captured: list[Digest],
) -> Iterator[CheckedDispatch]:
    """Yield what was found of each dispatch. ``captured``: gets each capture once it is in the store."""
    wholly: set[str] = set()  # symbols of kernels whose variant has a whole verdict
    for variant, digest, capture in _capture(store, spec, variants, wanted.count, tell, captured):
        launch = capture.launch
        dispatch = capture.dispatch
        found = CheckedDispatch(variant, dispatch.process_id, dispatch.index_of_kernel, digest)
        where = (
            f"{variant.title}: dispatch {dispatch.index_of_kernel} (grid "
            f"{format_shape(launch.grid_blocks)}, block {format_shape(launch.block_work_items)})"
        )
        if (why := _explain_unchecked(variant, capture, any_code=wanted.any_code)) is not None:
            tell(f"{where}: not compared: {why}")
            yield replace(found, why=why)
            continue
        is_whole = variant.symbol not in wholly
        settings = wanted.settings if is_whole else replace(wanted.settings, perturb=False)
        request = read_request(store, digest, variant.path, settings, variant.shape)
        judged, verdict = judge_now(store, request, fresh=False)
        if _has_nothing_to_compare(verdict):
            tell(f"{where}: nothing to compare: {_explain_nothing(request)}")
            yield replace(found, why="neither kernel changes memory there")
            continue
        wholly.add(variant.symbol)
        tell(f"{where}: {format_footer(verdict)}")
        if not verdict.passed:
            for line in format_lines(verdict, verbose=False):
                tell(f"  {line}")
            tell(f"  `{_write_command(request, verdict.seed)}` repeats this verdict")
        elif is_whole and (tried := format_tried(verdict)) is not None:
            tell(f"  {tried}")
        yield replace(found, verdict=judged, passed=verdict.passed, is_whole=is_whole)


def _has_nothing_to_compare(verdict: Validation) -> bool:
    """Whether the captured kernel changed nothing, nor did the variant: neither is right or wrong there."""
    return count_regions(verdict)[0] == 0 and (verdict.passed or NOTHING_KNOWN in verdict.reasons)


def _explain_nothing(request: Request) -> str:
    if request.settings.perturb:
        return "the captured kernel changes no memory there, from changed states neither"
    whole = replace(request, settings=replace(request.settings, perturb=True))
    return (
        "the captured kernel changes no memory there, and neither does the variant, which may do nothing at "
        f"all; `{_write_command(whole)}` judges it from other states"
    )


def _write_command(request: Request, seed: int | None = None) -> str:
    """Write the command that makes the verdict which a request asks for. seed: of its fresh values."""
    settings = request.settings
    words = ["kc-validate", request.capture.short, "--variant", str(request.variant)]
    for option, bound in zip(
        ("--tolerance", "--rtol", "--ulp"),
        (settings.bounds.atol, settings.bounds.rtol, settings.bounds.ulp),
        strict=True,
    ):
        words += [] if bound is None else [option, str(bound)]
    words += [] if settings.timeout_s == JudgeSettings.timeout_s else ["--timeout", f"{settings.timeout_s:g}"]
    words += [] if settings.perturb else ["--quick"]
    words += [] if seed is None else ["--seed", str(seed)]
    return add_store_option(shlex.join(words))


def _explain_unchecked(variant: ChosenVariant, capture: Capture, *, any_code: bool) -> str | None:
    """Explain why the variant will not run in a dispatch; None if it will."""
    if capture.code_digest != variant.capture.code_digest and not any_code:
        return "the kernel is of another code object than the captured one"
    block = capture.launch.block_work_items
    if variant.shape is None and (why := explain_unfit(variant.facts, block)) is not None:
        return f"the captured kernel runs there: {why}"
    return None


def _capture(
    store: Store,
    spec: ProgramSpec,
    variants: Sequence[ChosenVariant],
    count: int,
    tell: Callable[[str], None],
    captured: list[Digest],
) -> Iterator[tuple[ChosenVariant, Digest, Capture]]:
    """Capture the dispatches that the variants will run in. All are captured before the first is yielded."""
    selections = tuple(
        Selection(
            match=NameMatch.MANGLED,
            pattern=variant.symbol,
            count=count,
            grid_blocks=None if variant.shape is None else variant.capture.launch.grid_blocks,
            block_work_items=None if variant.shape is None else variant.capture.launch.block_work_items,
        )
        for variant in variants
    )
    by_symbol = {variant.symbol: variant for variant in variants}
    quiet = replace(spec, in_foreground=False, stdout=Path(os.devnull))
    warnings: list[str] = []
    with show_lines("check") as report:
        options = CaptureOptions(
            selections=selections,
            stop_after=True,
            with_trials=True,
            # A CUDA program that ends right after the kernel would take its last captures along.
            hold=True,
            warn=warnings.append,
            progress=report,
        )
        found = []
        for each in run_capture(store, quiet, options):
            captured.append(each[0])
            found.append(each)
    if len(found) < count * len(variants):  # else they are about the end that the program was given
        for text in warnings:
            tell(f"check: {text}")
    for digest, capture in found:
        yield by_symbol[capture.kernel.mangled_name], digest, capture
