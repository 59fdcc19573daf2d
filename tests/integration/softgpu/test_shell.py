"""The shell of `make shell`: programs run on the software GPU there, without a wrapper."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import softgpu
from programs import Build, programs

SHELL = Path(__file__).parents[3] / "tools/shell.py"
ADD = Build(next(program for program in programs("hip") if program.name == "vector_add"), "gfx90a", "O3")
# Of the installed package, not of the folder that tests run in.
ASK = [sys.executable, "-P", "-c", "import json, os; from kerncap_stages.machine.softgpu import fall_back; "
       "print(json.dumps(fall_back(os.environ, 'gfx942')))"]  # fmt: skip


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "HOME": "/nonexistent", "TERM": "dumb", **more}


def run(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SHELL), *words]
    done = subprocess.run(command, env=environment(**variables), capture_output=True, text=True, check=False,
                          timeout=softgpu.TIME_LIMIT_S)  # fmt: skip
    done.args = shlex.join(command)
    return done


def typed(text: str) -> str:
    """What a terminal shows when this is typed into the shell, which ends with 0."""
    ours, its = pty.openpty()
    with subprocess.Popen([sys.executable, str(SHELL)], env=environment(), stdin=its, stdout=its,
                          stderr=its, start_new_session=True) as shell:  # fmt: skip
        os.close(its)
        os.write(ours, text.encode())
        shown = b""
        with contextlib.suppress(OSError):  # the terminal is gone
            while part := os.read(ours, 65536):
                shown += part
        assert shell.wait(softgpu.TIME_LIMIT_S) == 0
    os.close(ours)
    return shown.decode(errors="replace").replace("\r\n", "\n")


@pytest.mark.parametrize("build", [pytest.param(ADD, id="vector_add")])
def test_program_by_its_path_runs_on_the_software_gpu(build, executable):
    softgpu.check(run(str(executable(build))))
    off = run(str(executable(build)), KERNCAP_SOFTGPU="0")
    assert off.returncode == 1
    assert "no ROCm-capable device" in off.stderr


@pytest.mark.parametrize("build", [pytest.param(ADD, id="vector_add")])
def test_shell_shows_where_one_is_and_runs_programs(build, executable):
    program = executable(build)
    shown = typed(f"{program}\nKERNCAP_SOFTGPU=0 {program}\ntype -t pytest\nfalse\nexit\n")
    assert "[ROCm 6.4, software GPU]" in shown or "[ROCm 7.2, software GPU]" in shown
    assert shown.count(", wrong 0") == 1, shown
    assert shown.count("no ROCm-capable device") == 1, shown
    assert "function\n" in shown  # tests choose their GPUs themselves


def test_pytest_gets_no_gpu_from_the_shell(tmp_path):
    tests = tmp_path / "pytest"
    tests.write_text("#!/bin/sh\nenv\n")
    tests.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    for words in (["pytest"], ["bash", "-c", "true && pytest"]):
        assert "libkerncap_softgpu.so" not in run(*words, PATH=path).stdout
    assert run("bash", "-c", "true && env", PATH=path).stdout.count("libkerncap_softgpu.so") == 1


def test_stages_in_the_shell_choose_the_target_and_load_the_library_once():
    done = run(*ASK)
    assert json.loads(done.stdout) == {"KERNCAP_SOFTGPU_TARGET": "gfx942"}, done.stderr


def test_what_a_shell_runs_on_is_named():
    show = shutil.which("kc-show")
    assert show is not None
    about = json.loads(run(show, "--about", "--json").stdout)
    assert [gpu["name"] for gpu in about["gpus"]] == ["software GPU"]


def test_what_kc_softgpu_chose_is_left_alone():
    done = softgpu.run(ASK, "gfx90a")
    assert json.loads(done.stdout) == {}, done.stderr
