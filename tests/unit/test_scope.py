"""What a verdict says of the states that it leaves out, and of what stayed the same."""

from __future__ import annotations

import json

import manifest_examples as examples
import pytest

from kerncap_stages.manifests import View, dump
from kerncap_stages.manifests.replay import LaunchShape
from kerncap_stages.manifests.validation import Mode, Tolerance
from kerncap_stages.pages.scope import (
    describe_earlier,
    describe_fixed,
    describe_limit,
    name_limit,
    needs_earlier,
)
from kerncap_stages.pages.verdict import format_footer
from kerncap_stages.store.subjects import summarise_manifest


def verdict(*, perturb=True, fresh_values=True, **changes):
    made = examples.validation()
    options = made.options.model_copy(update={"perturb": perturb, "fresh_values": fresh_values})
    usual = {"passed": True, "options": options, "reasons": (), "mode": Mode.BYTE_EXACT, "regions": ()}
    return made.model_copy(update={**usual, **changes})


@pytest.mark.parametrize(
    ("made", "limit", "said"),
    [
        (verdict(perturb=False), "captured state only", "--quick left out changed memory and fresh values"),
        (verdict(fresh_values=False), "captured values only", "--captured-values left out fresh values"),
        (verdict(inputs_kept=True), "captured values only", "no fresh values of the inputs were tried"),
    ],
)
def test_a_pass_that_is_not_full_says_what_was_left_out(made, limit, said):
    for each in (made, View(json.loads(dump(made)))):
        assert name_limit(each) == limit
        line = describe_limit(each, "kc-validate project")
        assert line.startswith("Not full: ")
        assert said in line
        assert ("`kc-validate project`" in line) is (not made.inputs_kept)  # no command makes one there
        assert format_footer(each) == f"Result: PASS  (byte-exact, nothing was compared, {limit})"
    assert summarise_manifest(dump(made)).subject == "PASS, byte exact, not full"


@pytest.mark.parametrize(
    "made",
    [
        verdict(),
        verdict(passed=False, perturb=False),
        verdict(variant=None, perturb=False),
        verdict(options=None),
        verdict(reasons=("these inputs kept their captured values: table",)),
    ],
)
def test_full_verdicts_and_failures_leave_nothing_out(made):
    assert name_limit(made) is None
    assert describe_limit(made, "kc-validate project") is None
    assert "only" not in format_footer(made)
    assert "not full" not in summarise_manifest(dump(made)).subject


def test_a_verdict_says_what_stayed_the_same():
    capture = examples.capture()
    line = describe_fixed(verdict(), capture)
    blocks = " x ".join(map(str, capture.launch.grid_blocks))
    assert line.startswith(f"Fixed: scalar arguments, sizes, {blocks} work-groups of ")
    assert "`kc-capture --cases N`" in line
    assert describe_fixed(View(json.loads(dump(verdict()))), View(json.loads(dump(capture)))) == line
    shape = LaunchShape(grid_blocks=(7, 1, 1), block_work_items=(32, 1, 1), dynamic_lds_bytes=0)
    assert "7 x 1 x 1 work-groups of 32 x 1 x 1;" in describe_fixed(verdict(variant_shape=shape), capture)
    assert describe_fixed(verdict(passed=False), capture) is None
    assert describe_fixed(verdict(variant=None), capture) is None


def test_an_earlier_verdict_that_says_more_is_named():
    quick, failed, full = verdict(perturb=False), verdict(passed=False), verdict()
    within = verdict(mode=Mode.NUMERIC, tolerance=Tolerance(relative=1e-3))

    def earlier(made, *others):
        return describe_earlier(made, iter([(f"{number}" * 12, each) for number, each in enumerate(others)]))

    assert earlier(quick, full, failed) == (
        "Earlier: FAIL (byte-exact) on the same code: `kc-show 111111111111` shows why"
    )
    assert earlier(quick, quick, within) == (
        "Earlier: PASS (numeric) on the same code, the full verdict: 111111111111"
    )
    assert earlier(within, failed).startswith("Earlier: FAIL")
    assert earlier(within, full) is None
    assert earlier(quick, quick) is None
    assert earlier(full, failed) is None
    assert [needs_earlier(each) for each in (quick, within, full, failed)] == [True, True, False, False]
