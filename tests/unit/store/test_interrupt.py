"""Ctrl-C while another process holds the store's lock: whoever waits ends, and at once."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import executables
import pytest

from kerncap_stages.store.check import check_store


def sleeps_with(pid, path):
    """Whether a process has a file open and sleeps; before that Python is still starting."""
    folder = Path(f"/proc/{pid}")
    is_asleep = (folder / "stat").read_text().rpartition(")")[2].split()[0] == "S"
    for descriptor in (folder / "fd").iterdir():
        try:
            if is_asleep and descriptor.samefile(path):
                return True
        except OSError:
            continue
    return False


@pytest.mark.parametrize(
    "command",
    [("check",), ("gc",), ("put", "FILE"), ("name", "mine", "@"), ("export", "-o", "OUT", "@")],
    ids=lambda command: command[0],
)
def test_ctrl_c_ends_a_wait_for_the_lock(store, tmp_path, command):
    executables.publish_capture(store)
    (tmp_path / "FILE").write_bytes(b"content")
    executable = shutil.which("kc-store")
    with (store.root / "gate").open("r+") as gate, (store.root / "lock").open("r+") as lock:
        fcntl.flock(gate, fcntl.LOCK_EX)
        fcntl.flock(lock, fcntl.LOCK_EX)
        waiting = subprocess.Popen(
            [executable, *command],
            cwd=tmp_path,
            env=os.environ | {"KERNCAP_STORE": str(store.root)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            # What a script starts in the background ignores Ctrl-C, and so would this.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        try:
            limit = time.monotonic() + 60
            while not sleeps_with(waiting.pid, store.root / "gate"):
                assert waiting.poll() is None, "it does not wait"
                assert time.monotonic() < limit
                time.sleep(0.01)
            waiting.send_signal(signal.SIGINT)
            started = time.monotonic()
            waiting.wait(timeout=20)
            assert time.monotonic() - started < 10
        finally:
            waiting.kill()
            _, said = waiting.communicate()
    assert waiting.returncode in (-signal.SIGINT, 128 + signal.SIGINT), said
    assert b"Traceback" not in said
    assert check_store(store).ok


def test_the_lock_is_taken_once_it_is_free(store):
    with (store.root / "gate").open("r+") as gate:
        fcntl.flock(gate, fcntl.LOCK_EX)
        pid = os.fork()
        if pid == 0:
            with store.folder.lock_shared():
                os._exit(7)
        time.sleep(0.3)
        assert os.waitpid(pid, os.WNOHANG) == (0, 0)
        fcntl.flock(gate, fcntl.LOCK_UN)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
