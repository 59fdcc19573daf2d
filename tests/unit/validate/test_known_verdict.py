"""The newest verdict on a code object that is timed."""

from __future__ import annotations

import hashlib
from types import SimpleNamespace

import manifest_examples as examples

from kerncap_stages.cli.flows.known_verdicts import find_known_verdicts
from kerncap_stages.digest import Digest, FileRef
from kerncap_stages.manifests import dump
from kerncap_stages.manifests.replay import LaunchShape
from kerncap_stages.manifests.validation import Tolerance
from kerncap_stages.validate.timed import known_verdict
from kerncap_stages.validate.timed.known_verdict import find_known_verdict, list_known_verdicts

CAPTURE = examples.digest("capture")
CODE = examples.digest("built")
SHAPE = LaunchShape(grid_blocks=(4, 1, 1), block_work_items=(64, 1, 1), dynamic_lds_bytes=0)


class Verdicts:
    """A store of verdicts."""

    def __init__(self):
        self.entries, self.objects = [], {}

    def add(self, payload, capture=CAPTURE):
        digest = Digest(hashlib.sha256(payload).hexdigest())
        self.objects[digest] = payload
        self.entries.insert(0, SimpleNamespace(digest=digest, parents=[capture]))
        return digest

    def publish(self, code=CODE, capture=CAPTURE, **changes):
        made = examples.validation()
        variant = made.variant.model_copy(update={"payload": FileRef.to(code)})
        return self.add(dump(made.model_copy(update={"variant": variant, **changes})), capture)

    def list_artifacts(self, kind):
        assert kind == "validation"
        return self.entries

    def get(self, digest, *, verify=True):  # noqa: ARG002
        return self.objects[digest]


def test_the_newest_verdict_on_the_code_is_found():
    store = Verdicts()
    assert find_known_verdict(store, CAPTURE, CODE, None) is None
    store.publish(passed=True)
    newest = store.publish(passed=False)
    store.publish(code=examples.digest("other"), passed=True)
    store.publish(capture=examples.digest("another capture"), passed=True)
    store.publish(variant=None)
    found = find_known_verdict(store, CAPTURE, CODE, None)
    assert (found.digest, found.made.passed) == (newest, False)


def test_verdicts_on_other_code_are_not_parsed(monkeypatch):
    store, opened = Verdicts(), []
    found = [store.publish(passed=True), store.publish(passed=False)]
    for name in "abc":
        store.publish(code=examples.digest(name))
    store.objects[store.publish(code=examples.digest("damaged"))] = b"{"
    open_view = known_verdict.open_view
    monkeypatch.setattr(
        known_verdict, "open_view", lambda of, digest: opened.append(digest) or open_view(of, digest)
    )
    assert [each.digest for each in list_known_verdicts(store, CAPTURE, CODE, None)] == found[::-1]
    assert opened == found[::-1]


def test_an_earlier_fail_is_not_hidden_by_a_pass_that_says_less():
    store = Verdicts()
    assert list(find_known_verdicts(store, CAPTURE, CODE, None).explain(has_times=False)) == []
    full = examples.validation().options.model_copy(update={"perturb": True, "fresh_values": True})
    quick = full.model_copy(update={"perturb": False})
    failed = store.publish(passed=False)
    newest = store.publish(passed=True, options=quick)
    known = find_known_verdicts(store, CAPTURE, CODE, None)
    assert (known.newest.digest, known.failed.digest) == (newest, failed)
    (said,) = known.explain(has_times=True)
    assert said == (
        "the newest verdict on this code is PASS (captured state only), and an earlier one is FAIL: "
        f"{failed.short}; `kc-show {failed.short}` shows why"
    )
    store.publish(passed=True, options=full, tolerance=Tolerance(relative=1e-3))
    (said,) = find_known_verdicts(store, CAPTURE, CODE, None).explain(has_times=True)
    assert "PASS (within bounds), and" in said
    store.publish(passed=True, options=full, tolerance=None)
    assert list(find_known_verdicts(store, CAPTURE, CODE, None).explain(has_times=True)) == []


def test_a_verdict_is_on_one_launch():
    store = Verdicts()
    plain, shaped = store.publish(), store.publish(variant_shape=SHAPE)
    assert find_known_verdict(store, CAPTURE, CODE, None).digest == plain
    assert find_known_verdict(store, CAPTURE, CODE, SHAPE).digest == shaped
    other = SHAPE.model_copy(update={"dynamic_lds_bytes": 8})
    assert find_known_verdict(store, CAPTURE, CODE, other) is None


def test_a_damaged_verdict_says_nothing():
    store = Verdicts()
    older = store.publish(passed=True)
    store.add(b"{}")
    assert find_known_verdict(store, CAPTURE, CODE, None).digest == older
