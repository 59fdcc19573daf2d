"""What is told of a variant that was judged on several captures."""

from __future__ import annotations

from types import SimpleNamespace

import manifest_examples as examples

from kerncap_stages.digest import ManifestRef
from kerncap_stages.evaluate.entries import Answer, Entry
from kerncap_stages.manifests.evaluation import EvaluatedCase, Outcome

CASE = EvaluatedCase(capture=ManifestRef.to(examples.digest("capture")), launch="", weight=None)


def test_why_a_variant_is_wrong_comes_before_remarks_on_other_cases():
    entry = Entry(0, SimpleNamespace(name="tiled.hsaco", flags=()))
    entry.answers = {
        0: Answer(Outcome.RIGHT, reasons=("a remark",)),
        1: Answer(Outcome.WRONG, reasons=("outputs differ", "a remark")),
    }
    made = entry.describe([CASE, CASE], "machine")
    assert made.outcome is Outcome.WRONG
    assert made.reasons == ("outputs differ", "a remark")
