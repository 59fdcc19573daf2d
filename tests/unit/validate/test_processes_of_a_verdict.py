"""Which processes a verdict begins with, before it has read the capture."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest
from made_up_replays import VARIANT, Bench, choose_device, double

from kerncap_stages.replay import kept
from kerncap_stages.validate import engine, explorer, verdict
from kerncap_stages.validate.perturb import start as start_module
from kerncap_stages.validate.perturb.start import Start
from kerncap_stages.validate.replays.limits import MAX_BYTES_AT_ONCE, MAX_BYTES_KEPT


@pytest.fixture
def asked(monkeypatch):
    """What a verdict asks for, in order."""
    calls = []

    class Recorder:
        def __init__(self, *_where):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *_error):
            pass

        def keep(self, *, has_variant):
            calls.append(("keep", has_variant))

        def start(self, count):
            calls.append(("start", count))

        def start_for_later(self):
            calls.append("later")

    monkeypatch.setattr(kept, "VerdictReplayers", Recorder)
    monkeypatch.setattr(verdict, "judge_and_publish", lambda *_what, **_how: ("digest", None))
    return calls


def judge(store, *, size, code=b"code", perturb=True, fresh=True):
    settings = SimpleNamespace(perturb=perturb)
    keys = {"key": "0" * 64, "first_key": "1" * 64}
    where = {"backend": "cuda", "device_index": 0, "only_gpu": None}
    request = SimpleNamespace(code=code, settings=settings, size_bytes=size, **keys, **where)
    engine.judge_now(store, request, fresh=fresh)


def test_processes_are_kept_for_small_captures(store, asked):
    judge(store, size=MAX_BYTES_KEPT)
    assert asked == [("keep", True), ("keep", False), "later"]


def test_for_larger_ones_others_wait(store, asked):
    judge(store, size=MAX_BYTES_KEPT + 1)
    assert asked == [("start", 2), "later"]


def test_of_the_largest_one_at_a_time_is_in_memory(store, asked):
    judge(store, size=MAX_BYTES_AT_ONCE + 1)
    assert asked == [("start", 1)]


@pytest.mark.parametrize("what", [{"perturb": False}, {"code": None}])
def test_nothing_is_kept_for_few_replays(store, asked, what):
    judge(store, size=1, **what)
    assert asked == [("start", 1)]


def test_a_verdict_of_another_origin_imports_numpy_without_its_threads(store, asked, monkeypatch):
    known = ("digest", None)
    monkeypatch.setattr(engine, "import_numpy", lambda: asked.append("numpy"))
    monkeypatch.setattr(verdict, "publish_with_origin", lambda *_: asked.append("published") or known)
    monkeypatch.setattr(type(store.actions), "get", lambda *_: "2" * 64)
    judge(store, size=1, fresh=False)
    assert asked == ["numpy", "published"]


@pytest.mark.parametrize("is_large", [False, True])
def test_one_more_process_starts_for_a_later_verdict_on_large_memory(store, monkeypatch, is_large):
    """Three run then at once: one from the perturbed state, the variant's others, the captured kernel's."""
    changes = Start.changes.fget
    monkeypatch.setattr(Start, "changes", property(lambda start: changes(start) if start.is_fresh else None))
    bench = choose_device(Bench(store, double, double), software=False)
    assert bench.judge(seed=1).passed
    bench.keep()
    asked = []
    bench.expect = lambda: asked.append(1)
    monkeypatch.setattr(explorer, "MAX_BYTES_KEPT", bench.capture.size_bytes - is_large)
    assert bench.judge(seed=2).passed
    assert len(asked) == is_large


def test_on_hardware_a_state_that_is_too_large_is_made_while_those_with_fresh_values_are_replayed(
    store, monkeypatch
):
    changes = Start.changes.fget
    monkeypatch.setattr(Start, "changes", property(lambda start: changes(start) if start.is_fresh else None))
    replayed = {VARIANT: threading.Event(), None: threading.Event()}
    make = start_module.perturb

    def make_later(store, transaction, trial, *more):
        assert trial.is_fresh or all(each.wait(timeout=60) for each in replayed.values())
        return make(store, transaction, trial, *more)

    class Told(Bench):
        def run(self, start, variant, repeats=None):
            if start.is_fresh:
                replayed[variant].set()
            return super().run(start, variant, repeats)

    monkeypatch.setattr(start_module, "perturb", make_later)
    bench = choose_device(Told(store, double, double), software=False)
    assert bench.judge(seed=1).passed
