"""The order in which a verdict gives its reasons."""

from __future__ import annotations

from kerncap_stages.manifests.validation import Mode
from kerncap_stages.validate.judgement import Judgement


def test_why_it_failed_comes_before_remarks():
    judgement = Judgement(Mode.BYTE_EXACT).note("a remark").fail("outputs differ").note("another", "a remark")
    assert judgement.fail("it hangs", "outputs differ").reasons == (
        "outputs differ", "it hangs", "a remark", "another",
    )  # fmt: skip
