"""A cluster whose nodes are local, and what its made-up workers need."""

from __future__ import annotations

import manifest_examples as examples
import pytest
from local_nodes import HELPERS, LocalNodes

from kerncap_stages.evaluate import where as where_module
from kerncap_stages.manifests import dump


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
