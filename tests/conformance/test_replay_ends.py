"""What kc-replay leaves when it is stopped or lacks something: no process, no artifact, no part of a file."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import small_disk
from stages import executable

_PF_EXITING = 0x4  # include/linux/sched.h, of the flags in /proc/PID/stat


def list_children(stage):
    """List the processes that the threads of a stage started."""
    found = []
    for thread in Path(f"/proc/{stage.pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # the thread has ended
            found += thread.read_text().split()
    return found


def replayer_at_work(stage: subprocess.Popen) -> str:
    """Process ID of the stage's replayer, once its runtime has started its threads."""
    deadline = time.monotonic() + 60
    while not (replayers := [pid for pid in list_children(stage) if is_at_work(pid)]):
        assert time.monotonic() < deadline
        os.sched_yield()
    return replayers[0]


def is_at_work(pid: str) -> bool:
    """Whether it is a replayer whose runtime has started its threads, and that nobody has killed."""
    process = Path("/proc", pid)
    try:
        if b"kc-replay-" not in (process / "cmdline").read_bytes() or len(list(process.glob("task/*"))) < 2:
            return False
        pending = int(re.search(r"^SigPnd:\t(\w+)$", (process / "status").read_text(), re.M)[1], 16)
        flags = int((process / "stat").read_text().rpartition(")")[2].split()[6])
    except OSError:
        return False
    # Once it was killed, it is for its driver to let it go.
    return not pending >> (signal.SIGKILL - 1) & 1 and not flags & _PF_EXITING


def test_errors_of_the_replayer_name_the_capture_and_the_next_step(stages, scaled):
    done = stages.replay(scaled, "--device", 63).must(6)
    assert f"capture {scaled[:12]}: there is no GPU 63" in done.err
    assert "next:" in done.err


def test_a_chunk_that_is_missing_is_named(stages, scaled):
    states = [region["pre"] for region in stages.show(scaled)["regions"] if region["pre"]]
    chunk = next(each for state in states for each in stages.show_object(state)["chunks"] if each)
    (stages.store / "objects" / chunk[:2] / chunk).unlink()
    done = stages.replay(scaled).must(3)
    assert chunk in done.err
    assert f"capture {scaled[:12]}: " in done.err
    assert "kc-store check" in done.err


def test_a_snapshot_that_was_verified_before_need_not_be_hashed_again(stages, scaled):
    assert stages.replay(scaled, "--no-verify").must().manifest["matches_golden"] is True
    capture = stages.show(scaled)
    chunks = {}
    for region in capture["regions"]:
        if region["pre"]:
            listed = stages.show_object(region["pre"])["chunks"]
            chunks.update({digest: region for digest in listed if digest})
    victim = stages.store / "objects" / next(iter(chunks))[:2] / next(iter(chunks))
    assert victim.exists()
    content = bytearray(victim.read_bytes())
    content[-1] ^= 1
    victim.chmod(0o600)
    victim.write_bytes(content)
    stages.replay(scaled).must(3)


@pytest.mark.usefixtures("own_mounts")
def test_a_full_disk_under_the_dump_leaves_no_part_of_a_region(stages, scaled, tmp_path):
    folder = tmp_path / "small"
    folder.mkdir()
    largest = max(region["size_bytes"] for region in stages.show(scaled)["regions"] if region["pre"])
    listing = f'kc="$1"; shift; "$kc" "$@"; code=$?; ls -l {folder}/out; exit $code'
    done = subprocess.run(
        [
            *(sys.executable, small_disk.__file__, str(folder), str(largest // 2)),
            *("sh", "-c", listing, "sh", *executable("replay"), scaled, "--dump-output", f"{folder}/out"),
        ],
        env=stages.environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 4, done.stderr
    assert f"cannot write {folder}/out/region_" in done.stderr
    assert "next:" in done.stderr
    sizes = {line.split()[-1]: int(line.split()[4]) for line in done.stdout.splitlines() if ".bin" in line}
    whole = {
        f"region_{region['base_address']:016x}.bin": region["size_bytes"]
        for region in stages.show(scaled)["regions"]
    }
    assert sizes.items() <= whole.items()


@pytest.mark.usefixtures("own_mounts")
def test_a_full_temporary_folder_is_no_verdict_on_the_kernel(stages, scaled, tmp_path):
    """Whichever of a replay's files finds no room: one that says how it went is missing then."""
    folder = tmp_path / "small"
    folder.mkdir()
    told = []
    for room_kib in (*range(12, 52, 4), 8192):
        done = subprocess.run(
            [
                *(sys.executable, small_disk.__file__, str(folder), str(room_kib << 10)),
                *(*executable("validate"), scaled, "--fresh"),
            ],
            env=stages.environment | {"TMPDIR": str(folder)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode in (0, 4), done.stderr
        if done.returncode != 0:
            assert str(folder) in done.stderr
            assert "TMPDIR" in done.stderr
        told.append(done.returncode)
    assert told[0] == 4
    assert told[-1] == 0


def test_a_limit_on_the_size_of_files_is_no_verdict_on_the_kernel(stages, scaled, variant):
    """The replayer may end by a signal then. A later verdict without the limit knows nothing of that."""
    words = [*executable("validate"), scaled, "--variant", str(variant("idempotent"))]
    for limit in ("64", "unlimited"):
        done = subprocess.run(
            ["bash", "-c", 'ulimit -f "$1"; shift; exec "$@"', "bash", limit, *words],
            env=stages.environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0 or limit != "unlimited", done.stderr
        assert done.returncode in (0, 4), done.stderr
        assert done.returncode == 0 or "ulimit -f unlimited" in done.stderr


@pytest.fixture(params=["replay"])
def hung(request, stages, scaled, variant, tmp_path):
    """A stage whose replayer runs a kernel that never ends; ``output`` and ``errors`` hold what it wrote."""
    command = [*executable(request.param), scaled, "--variant", str(variant("wild_variants", "HANG"))]
    # Files: the other end of a pipe is the replayer's, too, until its driver lets it go.
    with (tmp_path / "output").open("wb") as output, (tmp_path / "errors").open("wb") as errors:
        stage = subprocess.Popen(
            command,
            env=stages.environment,
            stdout=output,
            stderr=errors,
            # A script in the background ignores SIGINT, and what it starts inherits that.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
    try:
        yield stage
    finally:
        stage.kill()
        stage.wait()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stage_that_is_interrupted_leaves_no_replayer_and_no_artifact(hung, stages, tmp_path, number):
    replayer = replayer_at_work(hung)
    hung.send_signal(number)
    hung.wait(60)
    err = (tmp_path / "errors").read_text()
    assert hung.returncode in (128 + number, -number), err
    assert not (tmp_path / "output").read_bytes()
    assert "Traceback" not in err
    assert not is_at_work(replayer)
    assert stages.run("show", "@replay").code == 3


def test_a_hung_replay_does_not_outlive_the_stage_that_is_killed(hung):
    replayer = replayer_at_work(hung)
    hung.kill()
    hung.wait(60)
    deadline = time.monotonic() + 60
    while is_at_work(replayer):
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("hung", ["replay", "validate"], indirect=True)
def test_a_replayer_that_the_system_kills_says_nothing_of_the_kernel(hung, stages, tmp_path):
    """As it does where memory runs out: a verdict on the variant, or a remembered one, would be wrong."""
    ends_at = time.monotonic() + 60
    while hung.poll() is None:
        assert time.monotonic() < ends_at
        for pid in list_children(hung):
            if is_at_work(pid):
                os.kill(int(pid), signal.SIGKILL)
    err = (tmp_path / "errors").read_text()
    assert hung.returncode == 4, err
    assert "was killed (SIGKILL)" in err
    assert "next:" in err
    assert not (tmp_path / "output").read_bytes()
    for kind in ("replay", "validation"):
        assert stages.run("show", f"@{kind}").code == 3
