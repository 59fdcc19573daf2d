"""Cores judge, GPUs time what is right: who is asked for what, and what a lost GPU costs. Nodes are local."""

from __future__ import annotations

import json
from pathlib import Path

import made_up
import manifest_examples as examples
import pytest
from local_nodes import LocalNodes

from kerncap_stages.errors import DeviceError, UsageError
from kerncap_stages.evaluate import where as where_module
from kerncap_stages.evaluate.candidates import list_candidates
from kerncap_stages.evaluate.engine import EvaluateSettings, run_evaluate
from kerncap_stages.evaluate.subject import Subject

SYMBOL = "_Z5scalePfS_fi"


@pytest.fixture
def capture(store):
    return made_up.publish(store, b"code object", SYMBOL)


def asked(tmp_path):
    return [json.loads(line) for line in (tmp_path / "tasks").read_text().splitlines()]


def outcomes(made):
    return {Path(str(each.name)).name: each.outcome.value for each in made.variants}


@pytest.fixture
def cores(place, monkeypatch):  # noqa: ARG001
    """Where nodes of cores come from, beside ``place``."""
    nodes = LocalNodes()
    opened = []

    def open_cores(address, *, is_software):
        opened.append((address, is_software))
        return nodes

    monkeypatch.setattr(where_module, "RayPlace", open_cores)
    nodes.asked = opened
    return nodes


def split(store, capture, tmp_path, said, **settings):
    paths = []
    for name, text in said.items():
        paths.append(tmp_path / name)
        paths[-1].write_text(text)
    candidates = list_candidates(map(str, paths))
    return run_evaluate(
        Subject(store, (capture,)), candidates, EvaluateSettings(on="ray --cpus 2", workers=1, **settings)
    )[1]


def test_cores_judge_and_gpus_time_only_what_is_right(store, capture, tmp_path, place, cores):
    said = {f"{number}.hsaco": f"right {number}" for number in range(1, 8)}
    said |= {"wrong.hsaco": "wrong", "late.hsaco": "late", "refused.hsaco": "refused"}
    made = split(store, capture, tmp_path, said)
    wanted = {name: word.split()[0] for name, word in said.items()} | {"late.hsaco": "wrong"}
    assert outcomes(made) == wanted
    assert {Path(str(each.name)).name: each.ratio for each in made.variants if each.ratio} == {
        f"{number}.hsaco": number / 1000 for number in range(1, 8)
    }
    assert cores.asked == [(None, True)]
    assert set(cores.opened) == {0, 1}
    assert place.opened == [2]  # the worker that times
    tasks = asked(tmp_path)
    assert len(tasks) == len(said) + 8  # each once, and what is right once more
    assert sum(each["judged"] for each in tasks) == 8
    assert (cores.left, place.left) == (1, 1)
    assert split(store, capture, tmp_path, said).variants == made.variants
    assert [each["judged"] for each in asked(tmp_path)[len(tasks) :]] == [False]  # the refused one


def test_a_gpu_that_is_lost_while_it_times_loses_no_verdict(store, capture, tmp_path, cores):  # noqa: ARG001
    (tmp_path / "nodes/kill-2").touch()
    said = {f"{number}.hsaco": f"right {number}" for number in range(1, 8)}
    made = split(store, capture, tmp_path, said)
    assert set(outcomes(made).values()) == {"right"}
    assert all(each.ratio for each in made.variants)
    assert (tmp_path / "nodes/killed-2").exists()


def test_without_a_gpu_that_times_the_evaluation_ends_with_the_reason(store, capture, tmp_path, place, cores):  # noqa: ARG001
    place.fails = dict.fromkeys(range(1, 100), True)
    with pytest.raises(DeviceError, match="the node is down"):
        split(store, capture, tmp_path, {"a.hsaco": "right 1", "b.hsaco": "wrong"})


def test_cores_judge_only_for_gpus_that_the_software_gpu_stands_for(store, tmp_path, cores, monkeypatch):  # noqa: ARG001
    def publish(**changes):
        environment = examples.environment()
        devices = tuple(each.model_copy(update=changes) for each in environment.devices)
        environment = environment.model_copy(update={"devices": devices})
        monkeypatch.setattr(made_up, "environment", lambda: environment)
        return made_up.publish(store, str(changes).encode(), SYMBOL)

    with pytest.raises(UsageError, match="judged on cores anyway"):
        split(store, publish(software=True), tmp_path, {})
    with pytest.raises(UsageError, match="does not emulate gfx1100"):
        split(store, publish(architecture="gfx1100"), tmp_path, {})
