"""Which program is run, and which of its kernels are captured: from a command line, or from a profile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kerncap_stages.collect.program import ProgramSpec
from kerncap_stages.collect.ranking import (
    NONE_OF_THE_PROGRAM,
    is_of_the_program,
    main_shape,
    name_to_capture,
    of_the_program,
)
from kerncap_stages.collect.selection import KernelRule, close_names
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
    """A program and what to take from it."""

    spec: ProgramSpec
    kernels: tuple[tuple[str, bool], ...]  # (pattern, it is a mangled name)
    parents: tuple[Digest, ...]
    profile: Profile | None = None


def from_command(command: tuple[str, ...], rank: int | None, kernels: Sequence[str]) -> CaptureRequest:
    """Take kernels by their names. Raises UsageError where the command or the names are missing."""
    if rank is not None:
        raise UsageError(
            "--rank takes a kernel of a profile, and none is given",
            hint="kc-profile -- ./app | kc-capture --rank 2",
        )
    if not command or not kernels:
        raise UsageError(
            "no kernel given" if command else "no program given after `--`",
            hint="kc-capture --kernel NAME -- ./app; `kc-profile -- ./app` finds the names",
        )
    return CaptureRequest(ProgramSpec(command), tuple((name, False) for name in kernels), ())


def from_profile(
    digest: Digest,
    profile: Profile,
    command: tuple[str, ...] | None,
    rank: int | None,
    kernels: Sequence[str],
    tell: Callable[[str], None],
) -> CaptureRequest:
    """Take kernels of a profile: by name, by rank, or the program's own that takes the most time.

    ``command`` replaces the one that the profile holds; an imported profile holds none. ``tell`` is called
    with what people should know of the choice. Raises UsageError where there is no command or no such kernel.
    """
    if command is not None and not command:
        raise UsageError("no program given after `--`", hint=f"kc-capture {digest.short} -- ./app")
    if command:
        spec = ProgramSpec(command)
    elif profile.program is not None:
        spec = ProgramSpec.of(profile.program)
    else:
        raise UsageError(
            f"profile {digest.short} does not say how the program was run",
            hint=f"give the command: kc-capture {digest.short} -- ./app",
        )
    chosen = tuple((name, False) for name in kernels) or (_ranked(digest, profile, rank, tell),)
    return CaptureRequest(spec, chosen, (digest,), profile)


def names_not_profiled(request: CaptureRequest, selections: Sequence[Selection]) -> Iterator[str]:
    """What people should know of names that no kernel of the profile has, before a program runs for hours."""
    kernels = () if request.profile is None else request.profile.kernels
    for selection in selections:
        rule = KernelRule.of(selection)
        is_mangled = selection.match is NameMatch.MANGLED
        names = [kernel.mangled_name if is_mangled else kernel.name for kernel in kernels]
        # What another profiler wrote has no mangled names.
        if not any(names) or any(rule.wants(kernel.mangled_name or "", kernel.name) for kernel in kernels):
            continue
        close = close_names(selection.pattern or "", [name for name in names if name])
        yield (
            f"warning: no kernel of profile {request.parents[0].short} matches {selection.pattern!r}"
            f"{'; these come close: ' + ', '.join(close) if close else ''}; the program is run all the same"
        )


def in_main_shapes(
    request: CaptureRequest, selections: Sequence[Selection], tell: Callable[[str], None]
) -> tuple[Selection, ...]:
    """Ask for the launch shape in which each kernel spent most time, where the user asks for no dispatch.

    One name may stand for many sizes of a problem, and for the configurations that an autotuner tries first.
    """
    return tuple(_in_main_shape(request, selection, tell) for selection in selections)


def _in_main_shape(request: CaptureRequest, selection: Selection, tell: Callable[[str], None]) -> Selection:
    profile = request.profile
    kernels = () if profile is None else profile.kernels
    rule = KernelRule.of(selection)
    matching = [each for each in kernels if rule.wants(each.mangled_name or "", each.name)]
    main = main_shape(matching[0], profile.time_source) if profile is not None and matching else None
    if main is None or selection.grid_blocks or selection.block_work_items:
        return selection
    if len(matching) > 1:
        tell(
            f"{len(matching)} kernels of the profile match {selection.pattern!r}: the first dispatch is taken"
        )
        return selection
    tell(f"{told_shape(matching[0], main)}; `kc-show {request.parents[0].short}` lists them")
    return selection.model_copy(
        update={"grid_blocks": main.grid_blocks, "block_work_items": main.block_work_items}
    )


def told_shape(kernel: KernelStatistics, main: MainShape) -> str:
    """For people: which of a kernel's launch shapes is taken, and what takes another."""
    shapes = {(each.grid_blocks, each.block_work_items) for each in kernel.launch_shapes}
    text = (
        f"{kernel.name} was launched in {len(shapes)} shapes: the first dispatch of "
        f"{_words(main.grid_blocks)} work-groups of {_words(main.block_work_items)} is taken, "
        f"which had {main.share:.0%} of its time"
    )
    if main.is_largest_of_close:
        text += "; others took about as long on the software GPU, and launched fewer work-items"
    if kernel.last_shape is None:
        return text
    last = kernel.launch_shapes[kernel.last_shape]
    if (last.grid_blocks, last.block_work_items) == (main.grid_blocks, main.block_work_items):
        return f"{text}; the last launch had it, too"
    words = f"--grid-blocks {_words(last.grid_blocks)} --block {_words(last.block_work_items)}"
    return f"{text}; `kc-capture … {words}` takes the shape of its last launch"


def _words(size: Dim3) -> str:
    return ",".join(map(str, size))


def _ranked(
    digest: Digest, profile: Profile, rank: int | None, tell: Callable[[str], None]
) -> tuple[str, bool]:
    if (rank or 1) > len(profile.kernels):
        count = formats.count(len(profile.kernels), "kernel")
        raise UsageError(
            f"profile {digest.short} has {count}, and rank {rank or 1} is asked for",
            hint=f"`kc-show {digest.short}` lists them",
        )
    kernel = profile.kernels[rank - 1] if rank else of_the_program(profile.kernels)[0]
    if rank is None and not is_of_the_program(kernel):
        tell(NONE_OF_THE_PROGRAM)
    elif rank is None:
        for other in profile.kernels[: profile.kernels.index(kernel)]:
            tell(f"{other.name} takes more time, and is no kernel of the program's own: `--rank` takes it")
    pattern, match = name_to_capture(kernel)
    return pattern, match is NameMatch.MANGLED
