"""The process that replays: what is waited for, and for how long."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest

from kerncap_stages.errors import DeviceError
from kerncap_stages.replay import process as process_module
from kerncap_stages.replay.process import require_own_ending, run_replayer
from kerncap_stages.replay.standby import Standby, Standbys
from kerncap_stages.validate.replays.speculation import Speculation

SLEEPS = [sys.executable, "-c", "import time; time.sleep(60)"]


@pytest.fixture
def started(monkeypatch):
    """The processes that were started, which end with the test."""
    processes = []

    class Known(subprocess.Popen):
        def __init__(self, *words, **options):
            super().__init__(*words, **options)
            processes.append(self)

    monkeypatch.setattr(subprocess, "Popen", Known)
    yield processes
    for process in processes:
        process.send_signal(signal.SIGKILL)
        process.wait()


@pytest.fixture
def held(started, monkeypatch):
    """The same, held as by a driver that never lets go: ``kill`` alone does not end them."""
    monkeypatch.setattr(subprocess.Popen, "kill", lambda _process: None)
    monkeypatch.setattr(process_module, "_MAX_RELEASE_S", 0.1)
    return started


def test_one_that_does_not_end_in_time_is_killed_and_gone(started):
    assert run_replayer(SLEEPS, os.environ, 0.1, progress=None) is None
    assert [process.returncode for process in started] == [-signal.SIGKILL]


def test_one_that_its_driver_never_lets_go_is_named(held):
    with pytest.raises(DeviceError, match="has not released") as raised:
        run_replayer(SLEEPS, os.environ, 0.1, progress=None)
    assert f"process {held[0].pid}" in str(raised.value)


def test_who_interrupts_is_not_held_by_a_driver_either(held, monkeypatch):
    def interrupted(*_words):
        raise KeyboardInterrupt

    monkeypatch.setattr(process_module, "watch", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_replayer(SLEEPS, os.environ, None, progress=None)
    assert [process.poll() for process in held] == [None]


def test_an_interrupt_ends_replays_that_run_beside(started):
    begun = threading.Event()

    def replay():
        begun.set()
        run_replayer(SLEEPS, os.environ, None, progress=None)

    def interrupted():
        with Speculation(SimpleNamespace(run=lambda *_: replay())) as replays:
            replays.begin(SimpleNamespace(key=()), None)
            assert begun.wait(60)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [process.returncode for process in started] == [-signal.SIGKILL]


HELD = """
import os, subprocess, sys
from kerncap_stages.replay import process
process._MAX_RELEASE_S = 0.1
subprocess.Popen.kill = lambda _process: None
words = [sys.executable, "-c", "import os, time; os.write(2, b'says'); time.sleep(600)"]
process.run_replayer(words, os.environ, 1.0, progress=None)
"""


def test_one_that_is_held_does_not_keep_our_standard_error_open():
    done = subprocess.run(
        [sys.executable, "-c", HELD], stderr=subprocess.PIPE, text=True, check=False, timeout=100
    )
    assert "has not released replay process" in done.stderr
    os.kill(int(done.stderr.partition("replay process ")[2].partition(" ")[0]), signal.SIGKILL)


def test_what_a_replayer_prints_is_passed_on(capfd):
    words = [sys.executable, "-c", "import os; os.write(1, b'out'); os.write(2, b'err')"]
    assert run_replayer(words, os.environ, 60, progress=None) == 0
    assert capfd.readouterr() == ("", "outerr")


def test_one_that_waited_for_its_words_and_is_held_is_named_before_memory_is_needed(held):
    standbys = Standbys("cuda", 0)
    ours, theirs = socket.socketpair()
    standbys._taken.append(Standby(subprocess.Popen(SLEEPS, stdin=theirs), ours))
    theirs.close()
    with pytest.raises(DeviceError, match=f"process {held[0].pid}"):
        standbys.settle()
    assert ours.fileno() == -1


def test_what_was_found_out_counts_whatever_a_driver_holds(held):
    ours, theirs = socket.socketpair()
    with theirs, Standbys("cuda", 0) as standbys:
        standbys._taken.append(Standby(subprocess.Popen(SLEEPS, stdin=theirs), ours))
    assert [process.poll() for process in held] == [None]


def test_a_time_limit_holds_for_one_that_told_nothing_and_does_not_end(started):
    ours, theirs = socket.socketpair()
    process = subprocess.Popen(SLEEPS, stdin=subprocess.DEVNULL)
    theirs.close()  # as one does that dies
    assert Standby(process, ours).run(0.2) is None
    ours.close()
    assert started[0].wait(60) == -signal.SIGKILL


def test_a_time_limit_counts_from_the_launch_if_there_is_one_for_the_set_up(tmp_path):
    told, seen = tmp_path / "progress", []
    progress = (told, lambda phase, _done, _all: seen.append(phase))

    def run(after_launch_s: float) -> int | None:
        script = f"echo restore 1 2 > {told}; sleep 0.6; echo run 0 1 > {told}; exec sleep {after_launch_s}"
        return run_replayer(["/bin/sh", "-c", script], os.environ, 0.4, progress=progress, setup_s=60)

    assert run(0.1) == 0
    assert seen[0] == "restore"
    assert seen[-1] == "run"
    told.unlink()
    begun = time.monotonic()
    assert run(30) is None
    assert time.monotonic() - begun < 20


def test_the_end_of_a_process_is_seen_at_once():
    begun = time.monotonic()
    for _ in range(20):
        assert run_replayer(["/bin/true"], os.environ, 60, progress=None) == 0
    plain = time.monotonic()
    for _ in range(20):
        subprocess.run(["/bin/true"], check=True)
    # Popen.wait() with a time limit sleeps for up to 50 ms between looks.
    assert plain - begun < 3 * (time.monotonic() - plain) + 0.2


def test_runs_from_further_states_have_a_time_of_their_own(tmp_path):
    told = tmp_path / "progress"
    progress = (told, lambda *_: None)

    def run(script: str) -> int | None:
        return run_replayer(["/bin/sh", "-c", script], os.environ, 0.6, progress=progress, states_s=60)

    assert (
        run(f"echo run 0 1 > {told}; sleep 0.3; echo state 0 4 > {told}; sleep 0.6; echo state 1 4 > {told}")
        == 0
    )
    begun = time.monotonic()
    assert run(f"echo run 0 1 > {told}; exec sleep 30") is None
    assert time.monotonic() - begun < 20


BUSY = """
import os, time
os.sched_setaffinity(0, {%d})
while time.process_time() < %g: pass
"""


def test_waiting_for_a_processor_does_not_count(monkeypatch):
    if not process_module.measure_waits_s(os.getpid()):
        pytest.skip("this Linux does not count waits for a processor (/proc/PID/schedstat)")
    monkeypatch.setattr(process_module, "_MAX_GROWTH", 60.0)  # whatever else this machine does
    processor = min(os.sched_getaffinity(0))
    beside = [subprocess.Popen([sys.executable, "-c", BUSY % (processor, 600)]) for _ in range(2)]
    try:
        command = [sys.executable, "-c", BUSY % (processor, 0.4)]
        assert process_module.run_replayer(command, dict(os.environ), 0.7, progress=None) == 0
    finally:
        for each in beside:
            each.kill()
            each.wait()


def watch_in_vain(monkeypatch, measure_waits_s, limit_s=10.0, **settings):
    """How long a process that does not end is waited for, by a clock that only waiting moves."""
    now = [100.0]
    monkeypatch.setattr(process_module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(process_module, "measure_waits_s", lambda _: measure_waits_s(now[0] - 100.0))

    def wait(more_s):
        now[0] += more_s
        raise subprocess.TimeoutExpired("", more_s)

    assert process_module.watch(wait, limit_s, process_id=1, **{"progress": None, **settings}) is None
    return now[0] - 100.0


def test_a_process_that_computes_for_ever_ends_on_a_busy_machine_too(monkeypatch):
    took_s = watch_in_vain(monkeypatch, lambda after_s: {"1": after_s / 2})
    assert took_s == pytest.approx(20, abs=0.3)


def test_a_limit_grows_to_four_times_at_most(monkeypatch):
    assert watch_in_vain(monkeypatch, lambda after_s: {"1": after_s}) == pytest.approx(40)


def test_waits_before_the_limit_began_are_not_credited(monkeypatch):
    assert watch_in_vain(monkeypatch, lambda _: {"1": 1000.0, "2": 5.0}) == pytest.approx(10)
    # The second thread waits 4 s, less than the first one had waited before.
    assert watch_in_vain(monkeypatch, lambda after_s: {"1": 1000.0, "2": min(after_s, 4.0)}) == pytest.approx(
        14
    )


def test_waits_before_the_launch_are_not_credited_to_the_kernel(monkeypatch, tmp_path):
    told = tmp_path / "progress"
    told.write_text("restore 0 1")

    looks = []

    def launch_late(*_):
        looks.append(1)
        if len(looks) == 100:  # a look each 0.1 s
            told.write_text("run 0 1")

    took_s = watch_in_vain(
        monkeypatch, lambda after_s: {"1": min(after_s, 10.0)}, progress=(told, launch_late), setup_s=20.0
    )
    assert took_s == pytest.approx(20, abs=0.3)


def test_a_process_that_waits_for_something_else_ends_at_its_limit():
    began = time.monotonic()
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    assert process_module.run_replayer(command, dict(os.environ), 1.0, progress=None) is None
    assert time.monotonic() - began < 10


def test_the_waits_of_a_process_that_is_gone_are_none():
    assert process_module.measure_waits_s(2**22 + 1) == {}


@pytest.mark.parametrize("name", ["SIGKILL", "SIGXFSZ", "SIGXCPU"])
def test_an_end_by_the_system_says_nothing_about_the_kernel(name, tmp_path):
    with pytest.raises(DeviceError, match=name):
        require_own_ending(-signal.Signals[name], tmp_path)


def test_other_ends_are_the_kernels(tmp_path):
    for code in (0, 2, -signal.SIGSEGV, -signal.SIGABRT):
        require_own_ending(code, tmp_path)
