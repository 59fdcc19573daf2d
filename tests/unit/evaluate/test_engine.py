"""Evaluating: what is judged again and what is not, workers that die, interrupts, ranks. Without a GPU."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path

import made_up
import pytest

from kerncap_stages.errors import DeviceError, UsageError
from kerncap_stages.evaluate import engine as engine_module
from kerncap_stages.evaluate import local as local_module
from kerncap_stages.evaluate import scratch as scratch_module
from kerncap_stages.evaluate import workers as workers_module
from kerncap_stages.evaluate.candidates import list_candidates, read_line
from kerncap_stages.evaluate.ends import EvaluationInterrupted
from kerncap_stages.evaluate.engine import EvaluateSettings, run_evaluate
from kerncap_stages.evaluate.subject import Subject
from kerncap_stages.manifests import load_as
from kerncap_stages.manifests.evaluation import Evaluation, Outcome
from kerncap_stages.manifests.validation import Validation
from kerncap_stages.store.collect import collect_garbage
from kerncap_stages.validate.request import JudgeSettings, read_request

SYMBOL = "_Z5scalePfS_fi"


def outcomes(made: Evaluation) -> dict[str, tuple[str, int | None]]:
    return {Path(str(each.name)).name: (each.outcome.value, each.rank) for each in made.variants}


def test_right_variants_are_ranked_by_time(evaluate):
    _, made = evaluate(
        {"a.hsaco": "right 500", "b.hsaco": "right 250", "c.hsaco": "wrong", "d.co": "refused"}
    )
    assert outcomes(made) == {
        "a.hsaco": ("right", 2),
        "b.hsaco": ("right", 1),
        "c.hsaco": ("wrong", None),
        "d.co": ("refused", None),
    }
    assert made.variants[2].reasons == ("outputs differ",)
    assert made.complete


def test_what_was_judged_is_not_judged_again(evaluate, tasks):
    said = {f"{number}.hsaco": f"right {number}" for number in range(1, 9)} | {"wrong.co": "wrong"}
    first = evaluate(said)[1]
    assert len(tasks()) == 9
    second = evaluate(said)[1]
    assert len(tasks()) == 9
    assert second.variants == first.variants
    evaluate({**said, "new.hsaco": "right 7000"})
    assert len(tasks()) == 10
    evaluate(said, fresh=True)
    assert len(tasks()) == 19
    evaluate(said, judge=JudgeSettings(variant_runs=5))  # another question
    assert len(tasks()) == 28


@pytest.mark.parametrize(("word", "times"), [("timed", 1), ("late", 2)])
def test_one_that_is_wrong_in_a_timed_run_stays_wrong(evaluate, store, capture, tmp_path, tasks, word, times):
    for _ in range(times):
        _, made = evaluate({"a.hsaco": word})
    assert len(tasks()) == times
    assert outcomes(made) == {"a.hsaco": ("wrong", None)}
    request = read_request(store, capture, tmp_path / "variants/a.hsaco", JudgeSettings())
    verdict = load_as(store, store.actions.get(request.key), Validation)
    assert not verdict.passed
    assert verdict.reasons == ("wrong in 1 of 20 timed runs",)
    assert made.variants[0].cases[0].verdict.digest == store.actions.get(request.key)
    collect_garbage(store)
    _, again = evaluate({"a.hsaco": word})
    assert again.variants == made.variants
    assert len(tasks()) == times


def test_the_same_code_is_judged_once(evaluate, tasks):
    _, made = evaluate(
        {"a.hsaco": "right 5", "b.hsaco": "right 5", "c.hsaco": "right 6", "d.hsaco": "right 5"}
    )
    assert len(tasks()) == 2
    assert [each.same_as for each in made.variants] == [None, 0, None, 0]
    assert [each.rank for each in made.variants] == [1, 1, 2, 1]


def test_another_launch_is_another_variant(evaluate, tasks, tmp_path):
    (tmp_path / "variants/b.shape.json").write_text('{"grid_blocks": [2, 1, 1]}')
    _, made = evaluate({"a.hsaco": "right 5", "b.hsaco": "right 5"})
    assert len(tasks()) == 2
    assert [each.launch is None for each in made.variants] == [True, False]


def test_kc_validate_finds_these_verdicts(evaluate, store, capture, tmp_path):
    _, made = evaluate({"a.hsaco": "right 5"})
    request = read_request(store, capture, tmp_path / "variants/a.hsaco", JudgeSettings())
    assert store.actions.get(request.key) == made.variants[0].cases[0].verdict.digest


def test_a_collection_keeps_verdicts_and_code(evaluate, store):
    digest, made = evaluate({"a.hsaco": "right 5", "b.hsaco": "wrong"})
    collect_garbage(store)
    assert load_as(store, digest, Evaluation) == made
    for variant in made.variants:
        assert store.has(variant.cases[0].verdict.digest)
        assert store.get(variant.code.digest).decode().split()[0] == variant.outcome.value


def test_a_worker_that_dies_costs_one_more_try(evaluate, tasks):
    said = {f"{number}.hsaco": f"right {number}" for number in range(6)} | {"dying.hsaco": "dies once"}
    _, made = evaluate(said)
    assert {each.outcome for each in made.variants} == {Outcome.RIGHT}
    assert len(tasks()) == len(said) + 1


def test_one_on_which_workers_die_gets_no_verdict(evaluate, store, capture, tmp_path, tasks):
    _, made = evaluate({"a.hsaco": "right 5", "b.hsaco": "dies", "c.hsaco": "no device"})
    assert outcomes(made) == {
        "a.hsaco": ("right", 1),
        "b.hsaco": ("unjudged", None),
        "c.hsaco": ("unjudged", None),
    }
    assert "exit code 9" in made.variants[1].reasons[0]
    assert made.variants[2].reasons == ("no device",)
    request = read_request(store, capture, tmp_path / "variants/b.hsaco", JudgeSettings())
    assert store.actions.get(request.key) is None
    before = len(tasks())
    evaluate({"b.hsaco": "dies"})
    assert len(tasks()) == before + 2


def test_a_device_that_never_works_ends_it(evaluate, monkeypatch):
    def fail(*_):
        raise DeviceError("the captured kernel does not replay")

    monkeypatch.setattr(local_module, "replay_captured", fail)
    with pytest.raises(DeviceError, match="does not replay"):
        evaluate({f"{number}.hsaco": f"no device {number}" for number in range(20)})


def test_variants_that_kill_workers_do_not_end_it_while_the_captured_kernel_replays(evaluate, monkeypatch):
    replays = []
    monkeypatch.setattr(local_module, "replay_captured", lambda *_: replays.append(1))
    said = {f"{number}.hsaco": f"dies {number}" for number in range(5)} | {"right.hsaco": "right 5"}
    _, made = evaluate(said, workers=1)
    assert [each.outcome.value for each in made.variants] == ["unjudged"] * 5 + ["right"]
    assert len(replays) == 2  # of ten failures, at the fourth and the eighth


def test_a_worker_that_was_killed_as_it_started_is_started_again(evaluate, monkeypatch, tmp_path):
    worker, count = workers_module._COMMAND[1], tmp_path / "starts"
    first = f"mkdir {count} 2>/dev/null && kill -9 $$; exec {sys.executable} {worker}"
    monkeypatch.setattr(workers_module, "_COMMAND", ("sh", "-c", first))
    _, made = evaluate({"a.hsaco": "right 5"}, workers=1)
    assert [each.outcome.value for each in made.variants] == ["right"]
    assert count.is_dir()


def test_workers_that_cannot_start_end_it(evaluate, monkeypatch):
    monkeypatch.setattr(workers_module, "_COMMAND", (sys.executable, "-c", "raise SystemExit('broken')"))
    with pytest.raises(DeviceError, match="broken"):
        evaluate({"a.hsaco": "right 5"})


def test_an_interrupt_keeps_what_was_judged_and_a_rerun_goes_on(evaluate, store, tasks, tmp_path):
    said = {f"{number}.hsaco": f"right {number}" for number in range(4)} | {"slow.hsaco": "slow"}
    judged = []

    def report(number, variant):
        judged.append((number, variant))
        if len(judged) == 4:
            raise KeyboardInterrupt

    with pytest.raises(EvaluationInterrupted) as caught:
        evaluate(said, report)
    partial = load_as(store, caught.value.digest, Evaluation)
    assert not partial.complete
    assert len(partial.variants) == 4
    (tmp_path / "gate").mkdir()
    before = len(tasks())
    _, made = evaluate(said)
    assert made.complete
    assert len(made.variants) == 5
    assert len(tasks()) == before + 1


def test_variants_share_a_seed_that_was_chosen_after_all_were_read(store, capture, tasks, tmp_path):
    """A list that goes on after results were seen: its next variant could be made for a seed that it saw."""
    first, later = tmp_path / "first.hsaco", tmp_path / "later.hsaco"
    first.write_text("right 1")
    later.write_text("right 2")
    is_judged = threading.Event()

    def lines():
        yield read_line(f"{first}\n")
        assert is_judged.wait(60)
        yield read_line(f"{later}\n")

    run_evaluate(Subject(store, (capture,)), lines(), EvaluateSettings(workers=1), lambda *_: is_judged.set())
    seeds = [task["seed"] for task in tasks()]
    assert len(seeds) == 2
    assert seeds[0] != seeds[1]


def test_one_seed_serves_all_that_were_read_before(evaluate, tasks):
    evaluate({f"{number}.hsaco": f"right {number}" for number in range(30)}, workers=1)
    assert len({task["seed"] for task in tasks()}) < 10
    evaluate({"given.hsaco": "right 99"}, judge=JudgeSettings(seed=5))
    assert tasks()[-1]["seed"] == 5
    evaluate({"none.hsaco": "right 98"}, judge=JudgeSettings(fresh_values=False))
    assert tasks()[-1]["seed"] is None


def test_verdicts_are_in_the_store_before_they_are_told(evaluate, store):
    def report(_number, variant):
        assert (store.root / "artifacts" / variant.cases[0].verdict.digest).exists()

    evaluate({f"{number}.hsaco": f"right {number}" for number in range(5)}, report)


def test_an_evaluation_of_nothing_is_one(store, capture, tasks):
    _, made = run_evaluate(Subject(store, (capture,)), [], EvaluateSettings(workers=1))
    assert made.variants == ()
    assert tasks() == []


def test_a_source_needs_a_project(evaluate):
    _, made = evaluate({"a.hip": "__global__ void k() {}"})
    assert made.variants[0].outcome is Outcome.REFUSED
    assert "project" in made.variants[0].reasons[0]


def test_a_bad_line_of_a_list_is_refused_and_the_rest_goes_on(store, capture, tasks, tmp_path):  # noqa: ARG001
    (tmp_path / "a.hsaco").write_text("right 5")
    (tmp_path / "b.hsaco").write_text("right 6")
    lines = [
        str(tmp_path / "a.hsaco"), "{nothing}", json.dumps({"path": "c.hsaco", "flags": ["-O2"]}),
        "with\0zero", str(tmp_path / "b.hsaco"),
    ]  # fmt: skip
    _, made = run_evaluate(Subject(store, (capture,)), map(read_line, lines), EvaluateSettings(workers=1))
    assert [each.outcome.value for each in made.variants] == [
        "right",
        "refused",
        "refused",
        "refused",
        "right",
    ]
    assert "not a variant" in made.variants[1].reasons[0]
    assert made.complete


@pytest.mark.parametrize("error", [UsageError("no more"), OSError("no more"), ZeroDivisionError("no more")])
def test_an_error_keeps_what_was_judged(store, capture, tasks, tmp_path, error):
    (tmp_path / "a.hsaco").write_text("right 5")
    (tmp_path / "b.hsaco").write_text("right 6")
    is_judged = threading.Event()

    def lines():
        yield read_line(str(tmp_path / "a.hsaco"))
        assert is_judged.wait(60)
        raise error

    subject, settings = Subject(store, (capture,)), EvaluateSettings(workers=1)
    with pytest.raises(type(error), match="no more"):
        run_evaluate(subject, lines(), settings, lambda *_: is_judged.set())
    (entry,) = store.list_artifacts("evaluation")
    kept = load_as(store, entry.digest, Evaluation)
    assert not kept.complete
    assert [each.outcome.value for each in kept.variants] == ["right"]
    before = len(tasks())
    _, made = run_evaluate(subject, list_candidates([str(tmp_path)]), settings)
    assert made.variants[0].ratio == kept.variants[0].ratio
    assert len(tasks()) == before + 1


def test_an_error_before_any_verdict_publishes_nothing(store, capture, tasks):  # noqa: ARG001
    with pytest.raises(UsageError, match="no such file"):
        run_evaluate(Subject(store, (capture,)), list_candidates(["/none"]), EvaluateSettings(workers=1))
    assert store.list_artifacts("evaluation") == []


def test_each_case_is_judged_and_counts(store, capture, tasks, tmp_path):
    other = made_up.publish(store, b"code object", SYMBOL, working_directory="/other")
    (tmp_path / "a.hsaco").write_text("right 500")
    (tmp_path / "b.hsaco").write_text(f"fails on {other}")
    (tmp_path / "c.hsaco").write_text("refused")
    subject = Subject(store, (capture, other), held_out=1)
    candidates = list_candidates([str(tmp_path)])
    _, made = run_evaluate(subject, candidates, EvaluateSettings(workers=2))
    assert [case.held_out for case in made.cases] == [False, True]
    assert [each.outcome.value for each in made.variants] == ["right", "wrong", "refused"]
    assert [[case.passed for case in each.cases] for each in made.variants] == [
        [True, True],
        [True, False],
        [None, None],
    ]
    assert made.variants[0].ratio == 0.5
    assert len(tasks()) == 6
    assert run_evaluate(subject, list_candidates([str(tmp_path / "b.hsaco")]))[1].variants[0].cases == (
        made.variants[1].cases
    )


def test_captures_of_two_kernels_are_refused(store, capture):
    other = made_up.publish(store, b"code object", "_Z5otherPf")
    with pytest.raises(UsageError, match="captures of 2 kernels"):
        run_evaluate(Subject(store, (capture, other)), [], EvaluateSettings(workers=1))


def test_nothing_is_left_behind(evaluate, tmp_path, monkeypatch):
    place, memory = tmp_path / "temporary", tmp_path / "memory"
    place.mkdir()
    memory.mkdir()
    monkeypatch.setattr(scratch_module, "_IN_MEMORY", memory)
    monkeypatch.setattr(engine_module.TemporaryFolder.__init__.__globals__["tempfile"], "tempdir", str(place))
    evaluate({"a.hsaco": "right 5", "b.hsaco": "dies"})
    assert list(place.iterdir()) == []
    assert list(memory.iterdir()) == []
