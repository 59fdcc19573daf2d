"""Evaluations with made-up workers, on this machine and on a cluster whose nodes are local."""

from __future__ import annotations

import json
import sys

import made_up
import manifest_examples as examples
import pytest
from local_nodes import HELPERS, LocalNodes

from kerncap_stages.evaluate import where as where_module
from kerncap_stages.evaluate import workers as workers_module
from kerncap_stages.evaluate.candidates import list_candidates
from kerncap_stages.evaluate.engine import EvaluateSettings, run_evaluate
from kerncap_stages.evaluate.subject import Subject
from kerncap_stages.manifests import dump
from kerncap_stages.validate.request import JudgeSettings

SYMBOL = "_Z5scalePfS_fi"


@pytest.fixture
def place(tmp_path, monkeypatch):
    verdict = examples.validation().model_copy(update={"variant": examples.code_object(), "precision": None})
    (tmp_path / "verdict").write_bytes(dump(verdict))
    monkeypatch.setenv("PYTHONPATH", str(HELPERS))
    monkeypatch.setenv("KERNCAP_TEST_VERDICT", str(tmp_path / "verdict"))
    monkeypatch.setenv("KERNCAP_TEST_TASKS", str(tmp_path / "tasks"))
    monkeypatch.setenv("KERNCAP_TEST_NODES", str(tmp_path / "nodes"))
    (tmp_path / "nodes").mkdir()
    nodes = LocalNodes()
    monkeypatch.setattr(where_module, "_open_place", lambda *_, **__: nodes)
    return nodes


@pytest.fixture
def capture(store):
    return made_up.publish(store, b"code object", SYMBOL)


@pytest.fixture
def tasks(tmp_path, monkeypatch):
    """What workers were asked; they are made up."""
    path = tmp_path / "tasks"
    monkeypatch.setattr(workers_module, "_COMMAND", (sys.executable, str(HELPERS / "fake_worker.py")))
    monkeypatch.setenv("PYTHONPATH", str(HELPERS))
    monkeypatch.setenv("KERNCAP_TEST_TASKS", str(path))
    verdict = examples.validation().model_copy(update={"variant": examples.code_object(), "precision": None})
    (tmp_path / "verdict").write_bytes(dump(verdict))
    monkeypatch.setenv("KERNCAP_TEST_VERDICT", str(tmp_path / "verdict"))
    monkeypatch.setenv("KERNCAP_TEST_GATE", str(tmp_path / "gate"))
    return lambda: [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture
def evaluate(store, capture, tmp_path, tasks):  # noqa: ARG001 - workers are made up
    folder = tmp_path / "variants"
    folder.mkdir()

    def run(said, report=None, **settings):
        for name, text in said.items():
            (folder / name).write_text(text)
        candidates = list_candidates([str(folder / name) for name in said])
        judge = settings.pop("judge", JudgeSettings())
        wanted = EvaluateSettings(judge=judge, **{"workers": 2, **settings})
        return run_evaluate(Subject(store, (capture,)), candidates, wanted, report)

    return run
