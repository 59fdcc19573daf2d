"""Says which states with fresh values were not tried, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerncap_stages.validate.perturb.fresh import Variety

if TYPE_CHECKING:
    from collections.abc import Mapping

DOES_NOT_COMPLETE = "does not complete"
NOT_TRIED_ALONE = "was not run with each of them, because there are too many or it takes too long"
# What the states try.
_TRIES = {
    Variety.ALL: "fresh values of the inputs",
    Variety.FEW: "fresh values of a few elements",
    Variety.FEW_OTHERS: "fresh values of a few other elements",
    Variety.SIGNS: "the captured values with other signs",
    Variety.MIRRORED: "other signs in the inputs",
    Variety.ZEROS: "more zeros in the inputs",
    Variety.LONE: "other numbers that stand alone, or other addresses",
}


class LeftOut:
    """What was not tried, and what the captured kernel does then."""

    def __init__(self) -> None:
        self._why: dict[str, str] = {}

    def note(self, variety: Variety | None, why: str) -> None:
        """Note that a state was not tried; ``why``: what the captured kernel does there."""
        self._why[f"{_TRIES[variety or Variety.ALL]} were not tried"] = why

    def note_outputs(self, variety: Variety, lost: Mapping[str, str], *, tells_nothing: bool) -> None:
        """Note for which outputs a state tells little: why, by their names. tells_nothing: so do all."""
        for why, names in _group(lost).items():
            if tells_nothing:
                self.note(variety, why)
            else:
                self._why[f"{_TRIES[variety]} were not tried for {', '.join(names)}"] = why

    def note_strongest(self, milder: Mapping[str, str]) -> None:
        """Note which inputs do not have the strongest values: why, by their names."""
        for why, names in _group(milder).items():
            self._why[f"the strongest fresh values of {', '.join(names)} were not tried"] = why

    def note_lone(self, kept: Mapping[str, str]) -> None:
        """Note which inputs kept their lone number or their addresses: why, by their names."""
        for why, names in _group(kept).items():
            self._why[f"{_TRIES[Variety.LONE]} in {', '.join(names)} were not tried"] = why

    def explain(self) -> list[str]:
        """Explain all that was noted, for people."""
        return [
            f"{what}: the captured kernel {why}" + ("" if why == NOT_TRIED_ALONE else " then")
            for what, why in self._why.items()
        ]


def _group(reasons: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the names by their reasons."""
    found: dict[str, list[str]] = {}
    for name, why in reasons.items():
        found.setdefault(why, []).append(name)
    return found
