"""The page of a replay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerncap_stages.pages.parts import facts, heading
from kerncap_stages.pages.shared import (
    code_object_text,
    environment_section,
    same_instructions_fact,
    timing_facts,
)
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
    yield heading("Replay")
    yield facts(
        [
            ("capture", replay.capture.digest.short),
            ("code object", "baseline" if replay.variant is None else code_object_text(replay.variant)),
            ("outcome", ended),
            ("why", replay.explanation),
            ("as recorded", golden),
            ("restored", formats.size(replay.restored_size_bytes)),
        ]
    )
    if replay.timing is not None:
        yield heading("Times", f"after {formats.count(replay.plan.warmup, 'warm-up run')}")
        yield facts(timing_facts(replay.timing, "variant" if replay.comparison else "kernel"))
    if replay.comparison is not None:
        compared = replay.comparison
        yield facts(timing_facts(compared.baseline, "baseline"))
        yield facts(
            [
                (
                    "ratio",
                    f"{compared.ratio:.3f} of the baseline's time "
                    f"({compared.ratio_p05:.3f} to {compared.ratio_p95:.3f})",
                ),
                ("unedited", same_instructions_fact(compared.unedited)),
            ]
        )
    yield from environment_section(replay.environment)
