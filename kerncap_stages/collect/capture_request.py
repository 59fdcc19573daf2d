"""Chooses the program to run and the kernels to capture, from a command line or from a profile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kerncap_stages.collect.program import ProgramSpec
from kerncap_stages.collect.ranking import (
    NONE_OF_THE_PROGRAM,
    choose_name,
    find_main_shape,
    is_of_the_program,
    list_cases,
    list_program_kernels,
)
from kerncap_stages.collect.selection import KernelRule, find_close_names
from kerncap_stages.errors import UsageError
from kerncap_stages.manifests.capture import NameMatch
from kerncap_stages.text import formats

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kerncap_stages.collect.ranking import MainShape
    from kerncap_stages.digest import Digest
    from kerncap_stages.manifests.base import Dim3
    from kerncap_stages.manifests.capture import Selection
    from kerncap_stages.manifests.profile import KernelStatistics, Profile


@dataclass(frozen=True)
class CaptureRequest:
    """A program, and which of its kernels to capture."""

    spec: ProgramSpec
    kernels: tuple[tuple[str, bool], ...]  # (pattern, whether the pattern is a mangled name)
    parents: tuple[Digest, ...]
    profile: Profile | None = None


def choose_from_command(command: tuple[str, ...], rank: int | None, kernels: Sequence[str]) -> CaptureRequest:
    """Choose kernels by name. Raises UsageError if the command or the names are missing."""
    if rank is not None:
        raise UsageError(
            "--rank chooses a kernel of a profile, but no profile is given",
            hint="kc-profile -- ./app | kc-capture --rank 2",
        )
    if not command or not kernels:
        raise UsageError(
            "no kernel given" if command else "no program given after `--`",
            hint="kc-capture --kernel NAME -- ./app; `kc-profile -- ./app` finds the names",
        )
    return CaptureRequest(ProgramSpec(command), tuple((name, False) for name in kernels), ())


def choose_from_profile(
    digest: Digest,
    profile: Profile,
    command: tuple[str, ...] | None,
    rank: int | None,
    kernels: Sequence[str],
    tell: Callable[[str], None],
) -> CaptureRequest:
    """Choose kernels of a profile: by name, by rank, or the program's own kernel that took the most time.

    ``command`` replaces the command in the profile; an imported profile has none. ``tell`` is called with
    notes for the user about the choice. Raises UsageError if there is no command, or no kernel of this rank.
    """
    if command is not None and not command:
        raise UsageError("no program given after `--`", hint=f"kc-capture {digest.short} -- ./app")
    hint = f"kc-capture {digest.short} -- ./app"
    spec = ProgramSpec(command) if command else read_program(digest, profile, hint)
    chosen = tuple((name, False) for name in kernels) or (_choose_by_rank(digest, profile, rank, tell),)
    return CaptureRequest(spec, chosen, (digest,), profile)


def read_program(digest: Digest, profile: Profile, otherwise: str) -> ProgramSpec:
    """Return the program that was profiled. Raises UsageError if the profile was imported without it.

    otherwise: the command line that gives the program.
    """
    if profile.program is None:
        raise UsageError(
            f"profile {digest.short} does not say how the program was run",
            hint=f"give the command: {otherwise}",
        )
    return ProgramSpec.from_manifest(profile.program)


def warn_of_unprofiled_names(request: CaptureRequest, selections: Sequence[Selection]) -> Iterator[str]:
    """Yield a warning for each name that no kernel of the profile has: the program may run for hours."""
    kernels = () if request.profile is None else request.profile.kernels
    for selection in selections:
        rule = KernelRule.from_selection(selection)
        is_mangled = selection.match is NameMatch.MANGLED
        names = [kernel.mangled_name if is_mangled else kernel.name for kernel in kernels]
        # An imported profile has no mangled names.
        if not any(names) or any(rule.wants(kernel.mangled_name or "", kernel.name) for kernel in kernels):
            continue
        close = find_close_names(selection.pattern or "", [name for name in names if name])
        yield (
            f"warning: no kernel of profile {request.parents[0].short} matches {selection.pattern!r}"
            f"{'; similar names: ' + ', '.join(close) if close else ''}; the program is run anyway"
        )


def choose_main_shapes(
    request: CaptureRequest, selections: Sequence[Selection], tell: Callable[[str], None]
) -> tuple[Selection, ...]:
    """Add to each selection the launch shape in which the kernel spent the most time.

    A selection for which the user chose a shape stays as it is. Without a shape, the first dispatch could be
    one of another problem size, or a configuration that an autotuner tried and dropped.
    """
    return tuple(_choose_main_shape(request, selection, tell) for selection in selections)


def _choose_main_shape(
    request: CaptureRequest, selection: Selection, tell: Callable[[str], None]
) -> Selection:
    profile = request.profile
    kernels = () if profile is None else profile.kernels
    rule = KernelRule.from_selection(selection)
    matching = [each for each in kernels if rule.wants(each.mangled_name or "", each.name)]
    main = find_main_shape(matching[0], profile.time_source) if profile is not None and matching else None
    if main is None or selection.grid_blocks or selection.block_work_items:
        return selection
    if len(matching) > 1:
        tell(
            f"{len(matching)} kernels of the profile match {selection.pattern!r}; "
            "the first dispatch of any of them is captured"
        )
        return selection
    tell(f"{describe_main_shape(matching[0], main)}; `kc-show {request.parents[0].short}` lists them")
    return selection.model_copy(
        update={"grid_blocks": main.grid_blocks, "block_work_items": main.block_work_items}
    )


def choose_cases(
    request: CaptureRequest, selections: Sequence[Selection], tell: Callable[[str], None]
) -> tuple[Selection, ...]:
    """Select the first dispatch of each of ``count`` launch shapes: by time if there is a profile."""
    return tuple(_choose_cases(request, selection, tell) for selection in selections)


def _choose_cases(request: CaptureRequest, selection: Selection, tell: Callable[[str], None]) -> Selection:
    by_case = selection.model_copy(update={"by_case": True})
    profile = request.profile
    rule = KernelRule.from_selection(selection)
    kernels = () if profile is None else profile.kernels
    matching = [each for each in kernels if rule.wants(each.mangled_name or "", each.name)]
    if profile is None or not matching or selection.grid_blocks or selection.block_work_items:
        return by_case
    if len(matching) > 1:
        tell(
            f"{len(matching)} kernels of the profile match {selection.pattern!r}; "
            "the first launch shapes of any of them are captured"
        )
        return by_case
    known = list_cases(matching[0], profile.time_source)
    if not known:  # an imported profile may have none
        return by_case
    cases = known[: selection.count]
    share = sum(case.total_ns for case in cases) / max(1, sum(case.total_ns for case in known))
    captured = f"{len(cases)} of {formats.count(len(known), 'launch shape')}"
    text = f"{matching[0].name}: {captured} {'is' if len(cases) == 1 else 'are'} captured"
    tell(f"{text}, with {share:.0%} of the kernel's time")
    return by_case.model_copy(update={"cases": cases, "count": len(cases)})


def describe_main_shape(kernel: KernelStatistics, main: MainShape) -> str:
    """Say which of a kernel's launch shapes is captured, and which option chooses another."""
    shapes = {(each.grid_blocks, each.block_work_items) for each in kernel.launch_shapes}
    text = (
        f"{kernel.name} was launched in {len(shapes)} shapes; the first dispatch of "
        f"{_format_size(main.grid_blocks)} work-groups of {_format_size(main.block_work_items)} is captured: "
        f"this shape took {main.share:.0%} of the kernel's time"
    )
    if main.is_largest_of_close:
        text += "; other shapes took about as long on the software GPU but launched fewer work-items"
    if kernel.last_shape is None:
        return text
    last = kernel.launch_shapes[kernel.last_shape]
    if (last.grid_blocks, last.block_work_items) == (main.grid_blocks, main.block_work_items):
        return f"{text}; the last launch had the same shape"
    words = f"--grid-blocks {_format_size(last.grid_blocks)} --block {_format_size(last.block_work_items)}"
    return f"{text}; `kc-capture … {words}` captures the shape of the last launch"


def _format_size(size: Dim3) -> str:
    return ",".join(map(str, size))


def find_ranked(digest: Digest, profile: Profile, rank: int) -> KernelStatistics:
    """Return the kernel of a rank, counted from 1. Raises UsageError if the profile has fewer kernels."""
    if rank > len(profile.kernels):
        count = formats.count(len(profile.kernels), "kernel")
        raise UsageError(
            f"profile {digest.short} has {count}, but rank {rank} was requested",
            hint=f"`kc-show {digest.short}` lists them",
        )
    return profile.kernels[rank - 1]


def _choose_by_rank(
    digest: Digest, profile: Profile, rank: int | None, tell: Callable[[str], None]
) -> tuple[str, bool]:
    kernel = find_ranked(digest, profile, rank) if rank else list_program_kernels(profile.kernels)[0]
    if rank is None and not is_of_the_program(kernel):
        tell(NONE_OF_THE_PROGRAM)
    elif rank is None:
        for other in profile.kernels[: profile.kernels.index(kernel)]:
            tell(f"{other.name} took more time but is not the program's own kernel; `--rank` captures it")
    pattern, match = choose_name(kernel)
    return pattern, match is NameMatch.MANGLED
