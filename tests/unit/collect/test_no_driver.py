"""What is said of CUDA programs on a machine without NVIDIA's driver."""

from __future__ import annotations

import ctypes

import pytest

from kerncap_stages.collect.no_driver import explain_no_driver
from kerncap_stages.collect.profile import run_profile
from kerncap_stages.collect.program import ProgramSpec
from kerncap_stages.errors import AnswerIsNo, ProgramError
from kerncap_stages.store import Store


@pytest.fixture
def no_driver(monkeypatch):
    def fails(name):
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", fails)


def program(folder, *lines):
    path = folder / "app"
    path.write_text("\n".join(("#!/bin/sh", *lines, "")))
    path.chmod(0o755)
    return ProgramSpec(("./app",), working_directory=folder)


@pytest.mark.usefixtures("no_driver")
@pytest.mark.parametrize(("code", "error"), [(3, ProgramError), (0, AnswerIsNo)])
def test_a_cuda_program_is_told_that_there_is_no_driver(tmp_path, code, error):
    spec = program(tmp_path, "# as CUDA's runtime has it: libcuda.so.1", f"exit {code}")
    with pytest.raises(error) as raised:
        run_profile(Store.open(tmp_path / "store"), spec)
    assert "this machine has no NVIDIA driver (libcuda.so.1)" in raised.value.hint


@pytest.mark.usefixtures("no_driver")
def test_a_cuda_program_is_told_so_behind_a_shell_too(tmp_path):
    program(tmp_path, "# libcuda.so.1", "exit 3")
    (tmp_path / "data").write_bytes(b"libcuda.so.1")
    for text, seen in (("cd . && ./app 3", True), ("./data; ./missing", False), ("echo './app", False)):
        assert bool(explain_no_driver(ProgramSpec(("sh", "-c", text), working_directory=tmp_path))) is seen


@pytest.mark.usefixtures("no_driver")
def test_other_programs_are_told_what_may_be_wrong_with_them(tmp_path):
    assert explain_no_driver(program(tmp_path, "exit 3")) is None
    assert explain_no_driver(ProgramSpec(("no-such-program",))) is None
    with pytest.raises(ProgramError) as raised:
        run_profile(Store.open(tmp_path / "store"), program(tmp_path, "exit 3"))
    assert "without kc-profile" in raised.value.hint


def test_with_a_driver_it_is_not_the_reason(tmp_path, monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda name: name)
    assert explain_no_driver(program(tmp_path, "# libcuda.so.1")) is None
