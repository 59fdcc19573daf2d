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
    variants = [
        each.model_copy(update={"same_as": None if each.same_as is None else places.get(each.same_as)})
        for each in (described[number] for number in order)
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
