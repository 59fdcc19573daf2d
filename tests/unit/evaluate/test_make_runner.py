"""make, with all that it starts: nothing of that goes on after it."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from kerncap_stages.evaluate import make_runner as module
from kerncap_stages.evaluate.make_runner import BuildStoppedError, MakeRunner, NotBuiltError

MAKEFILE = """
good:
\t@echo said >&2; cat > in
bad:
\t@echo 'error: bad' >&2; exit 1
slow:
\t@(sleep 2; touch late) & touch begun; sleep 600
"""


@pytest.fixture
def runner(tmp_path):
    (tmp_path / "Makefile").write_text(MAKEFILE)
    with MakeRunner(runs_python=False) as made:
        yield made


def test_what_make_says_and_whether_it_worked(runner, tmp_path):
    good = runner.run(tmp_path, ["good"], 60)
    assert (good.succeeded, good.said) == (True, "said\n")
    assert (tmp_path / "in").read_bytes() == b""  # it reads nothing of ours
    bad = runner.run(tmp_path, ["bad"], 60)
    assert not bad.succeeded
    assert "error: bad" in bad.said


def test_what_make_started_ends_with_it(runner, tmp_path):
    with pytest.raises(NotBuiltError, match="within 1 s"):
        runner.run(tmp_path, ["slow"], 1)
    assert (tmp_path / "begun").exists()
    time.sleep(2.5)
    assert not (tmp_path / "late").exists()


def test_a_stop_ends_it(runner, tmp_path):
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(runner.run, tmp_path, ["slow"], 600)
        while not (tmp_path / "begun").exists():
            time.sleep(0.01)
        runner.stop()
        with pytest.raises(BuildStoppedError):
            running.result(30)
    with pytest.raises(BuildStoppedError):
        runner.run(tmp_path, ["good"], 60)


def test_without_a_guard_nothing_is_started(runner, tmp_path, monkeypatch):
    def fail():
        raise OSError

    monkeypatch.setattr(module, "_Guard", fail)
    with pytest.raises(OSError):
        runner.run(tmp_path, ["good"], 60)
    assert not (tmp_path / "in").exists()
