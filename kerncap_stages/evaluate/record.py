"""Makes the manifest of an evaluation from its variants."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kerncap_stages import __version__
from kerncap_stages.digest import Digest, ManifestRef
from kerncap_stages.evaluate.ranking import rank
from kerncap_stages.manifests.evaluation import Evaluation
from kerncap_stages.manifests.validation import Tolerance

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kerncap_stages.evaluate.subject import OpenedSubject
    from kerncap_stages.manifests.evaluation import EvaluatedVariant
    from kerncap_stages.validate.compare.bounds import Bounds


def _find_judged(described: Mapping[int, EvaluatedVariant], number: int) -> int:
    """Return the number of the variant that was judged for this one: its own, or that of one like it."""
    same_as = described[number].same_as
    return number if same_as is None else same_as


def make_evaluation(
    subject: OpenedSubject,
    bounds: Bounds,
    machine: str,
    described: Mapping[int, EvaluatedVariant],
    *,
    complete: bool,
) -> Evaluation:
    """Make the manifest. ``described``: the variants of which all is known, by their numbers."""
    environment = subject.first.environment.model_copy(
        update={"recorded_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
    )
    order = sorted(described)
    places = {number: place for place, number in enumerate(order)}
    # Builds end in any order: of those that are the same, the first that was given stands for all.
    first: dict[int, int] = {}
    for number in order:
        first.setdefault(_find_judged(described, number), number)
    variants = [
        described[number].model_copy(update={"same_as": None if lowest == number else places[lowest]})
        for number, lowest in ((each, first[_find_judged(described, each)]) for each in order)
    ]
    tolerance = Tolerance(absolute=bounds.atol, relative=bounds.rtol, ulp=bounds.ulp)
    return Evaluation(
        parents=tuple(ManifestRef.to(each) for each in subject.subject.captures),
        made_by=f"kerncap-stages {__version__}",
        kernel_name=subject.first.kernel.demangled_name,
        cases=subject.cases,
        environment=environment,
        machine=Digest(machine),
        tolerance=None if bounds.is_exact else tolerance,
        complete=complete,
        variants=rank(variants),
    )
