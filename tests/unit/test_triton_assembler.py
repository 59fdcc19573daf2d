"""The assembler with which a kernel of torch.compile is compiled again, to be recorded."""

from __future__ import annotations

import functools
import os
import sys
from types import ModuleType

import pytest

from kerncap_stages.inside.kerncap_triton.inductor import PTXAS, _like_a_worker

TASKS = "torch._inductor.runtime.compile_tasks"
TORCHS = "/torch/bin/ptxas"


@pytest.fixture
def choose(monkeypatch):
    """Make torch's module that chooses its assembler, once in a process; returns its function."""
    parts = TASKS.split(".")
    for end in range(1, len(parts) + 1):
        name = ".".join(parts[:end])
        monkeypatch.setitem(sys.modules, name, ModuleType(name))

    @functools.cache
    def choose_once():
        os.environ.setdefault(PTXAS, TORCHS)

    monkeypatch.setattr(sys.modules[TASKS], "_set_triton_ptxas_path", choose_once, raising=False)
    monkeypatch.delenv(PTXAS, raising=False)
    return choose_once


@pytest.mark.usefixtures("choose")
def test_every_kernel_is_compiled_again_with_torchs_assembler():
    for _ in range(2):
        with _like_a_worker():
            assert os.environ[PTXAS] == TORCHS
        assert PTXAS not in os.environ


def test_torch_still_chooses_its_assembler_itself(choose):
    with _like_a_worker():
        pass
    choose()
    assert os.environ.pop(PTXAS) == TORCHS


@pytest.mark.usefixtures("choose")
def test_an_assembler_that_the_user_chose_stays(monkeypatch):
    monkeypatch.setenv(PTXAS, "/mine")
    with _like_a_worker():
        assert os.environ[PTXAS] == "/mine"
    assert os.environ[PTXAS] == "/mine"
