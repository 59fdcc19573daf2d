"""What kc-replay leaves when it is stopped or lacks something: no process, no artifact, no part of a file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import small_disk
from stages import executable


def replayer_at_work(stage: subprocess.Popen) -> str:
    """Process ID of the stage's replayer, once its runtime has started its threads."""
    children = Path(f"/proc/{stage.pid}/task/{stage.pid}/children")
    deadline = time.monotonic() + 60
    while not (replayers := [pid for pid in children.read_text().split() if is_at_work(pid)]):
        assert time.monotonic() < deadline
        os.sched_yield()
    return replayers[0]


def is_at_work(pid: str) -> bool:
    """Whether it is a replayer whose runtime has started its threads."""
    process = Path("/proc", pid)
    try:
        return b"kc-replay-" in (process / "cmdline").read_bytes() and len(list(process.glob("task/*"))) > 1
    except OSError:
        return False


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


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stage_that_is_interrupted_leaves_no_replayer_and_no_artifact(stages, scaled, variant, number):
    stage = subprocess.Popen(
        [*executable("replay"), scaled, "--variant", str(variant("wild_variants", "HANG"))],
        env=stages.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A script in the background ignores SIGINT, and what it starts inherits that.
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),
    )
    replayer = replayer_at_work(stage)
    stage.send_signal(number)
    out, err = stage.communicate(timeout=60)
    assert stage.returncode in (128 + number, -number), err
    assert out == ""
    assert "Traceback" not in err
    assert not is_at_work(replayer)
    assert stages.run("show", "@replay").code == 3


def test_a_hung_replay_does_not_outlive_the_stage_that_is_killed(stages, scaled, variant):
    hung = variant("wild_variants", "HANG")
    stage = subprocess.Popen(
        [*executable("replay"), scaled, "--variant", str(hung)],
        env=stages.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    replayer = replayer_at_work(stage)
    stage.send_signal(signal.SIGKILL)
    stage.communicate(timeout=60)  # the replayer holds the other end of the pipe for as long as it lives
    assert not is_at_work(replayer)
