"""What a variant writes outside of all captured memory: in the program, that is somebody else's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerncap_stages.pages.formats import count

if TYPE_CHECKING:
    from collections.abc import Callable

    from kerncap_stages.validation.judgement import Judgement
    from kerncap_stages.validation.runs import Run


def judge_outside(judgement: Judgement, run: Run, baseline: Callable[[], Run]) -> None:
    """Fail a variant for what it writes there and the captured kernel, from the same state, does not.

    baseline: replays the captured kernel; asked only where the variant does write there.
    """
    if not run.outside:
        return
    known = baseline().outside
    astray = [
        (base, size)
        for base, size in run.outside
        if not any(low <= base and base + size <= low + length for low, length in known)
    ]
    if astray:
        first = astray[0][0]
        judgement.fail(
            "the variant writes outside of all captured memory, "
            f"{count(sum(size for _, size in astray), 'byte')} from {first:#x} on"
        )
