"""Which program is run, and which of its kernels are captured: from a command line, or from a profile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kerncap_stages.collector.program import ProgramSpec
from kerncap_stages.collector.ranking import NONE_OF_THE_PROGRAM, is_of_the_program, of_the_program
from kerncap_stages.errors import UsageError
from kerncap_stages.pages import formats

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kerncap_stages.digest import Digest
    from kerncap_stages.manifests.profile import Profile


@dataclass(frozen=True)
class CaptureRequest:
    """A program and what to take from it."""

    spec: ProgramSpec
    kernels: tuple[tuple[str, bool], ...]  # (pattern, it is a mangled name)
    parents: tuple[Digest, ...]


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
    return CaptureRequest(spec, chosen, (digest,))


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
    return (kernel.mangled_name, True) if kernel.mangled_name else (kernel.name, False)
