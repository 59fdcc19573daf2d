"""The page of a replay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerncap_stages.pages.parts import list_facts, make_heading
from kerncap_stages.pages.shared import (
    describe_code_object,
    describe_timing,
    describe_unedited,
    make_environment_section,
)
from kerncap_stages.replay.floor_lines import write_floor_lines
from kerncap_stages.text import formats

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from kerncap_stages.manifests.replay import Replay


def render(replay: Replay) -> Iterator[RenderableType]:
    """Show the outcome, then the times."""
    ended = replay.outcome.value.replace("_", " ")
    if replay.exit_signal is not None:
        ended += f", by signal {replay.exit_signal}"
    golden = {None: "was not compared", True: "yes", False: "NO"}[replay.matches_golden]
    yield make_heading("Replay")
    yield list_facts(
        [
            ("capture", replay.capture.digest.short),
            ("code object", "baseline" if replay.variant is None else describe_code_object(replay.variant)),
            ("outcome", ended),
            ("why", replay.explanation),
            ("as recorded", golden),
            ("restored", formats.format_size(replay.restored_size_bytes)),
        ]
    )
    if replay.timing is not None:
        yield make_heading("Times", f"after {formats.count(replay.plan.warmup, 'warm-up run')}")
        yield list_facts(describe_timing(replay.timing, "variant" if replay.comparison else "kernel"))
    if replay.comparison is not None:
        compared = replay.comparison
        yield list_facts(describe_timing(compared.baseline, "baseline"))
        yield list_facts(
            [
                (
                    "ratio",
                    f"{compared.ratio:.3f} of the baseline's time "
                    f"({compared.ratio_p05:.3f} to {compared.ratio_p95:.3f})",
                ),
                ("unedited", describe_unedited(compared.unedited)),
            ]
        )
    if lines := list(write_floor_lines(replay)):
        yield make_heading("Floor")
        yield list_facts([("", line.strip()) for line in lines])
    yield from make_environment_section(replay.environment)
