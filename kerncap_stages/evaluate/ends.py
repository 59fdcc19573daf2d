"""How an evaluation ends before all is judged, or without a place in the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerncap_stages.errors import StoreError

if TYPE_CHECKING:
    from kerncap_stages.digest import Digest
    from kerncap_stages.manifests.evaluation import Evaluation


class EvaluationStopped(Exception):  # noqa: N818 - no error: the candidates say that there is enough
    """Raised by candidates to end the evaluation at once; what was judged is published as not complete.

    ``run_evaluate`` raises it again if nothing was judged: then there is nothing to publish.
    """


class EvaluationInterrupted(KeyboardInterrupt):
    """The user interrupted; ``evaluation`` holds what was judged, and is published as ``digest``."""

    def __init__(self, digest: Digest, evaluation: Evaluation) -> None:
        super().__init__()
        self.digest = digest
        self.evaluation = evaluation


class EvaluationNotPublished(StoreError):  # noqa: N818 - as the others
    """The store does not take ``evaluation``."""

    def __init__(self, evaluation: Evaluation, why: StoreError) -> None:
        super().__init__(str(why), hint=why.hint)
        self.evaluation = evaluation
