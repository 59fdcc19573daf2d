"""What kc-replay says to options and files that make no sense, and what it leaves when it is stopped."""

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


@pytest.fixture
def scaled(stages, program):
    """A captured dispatch of a simple kernel."""
    (digest,) = stages.capture("scale_into", program("idempotent"))
    return digest


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--iterations", "0"), "--iterations"),
        (("--iterations", "many"), "--iterations"),
        (("--warmup", "-1"), "--warmup"),
        (("--timeout", "0"), "--timeout"),
        (("--timeout", "inf"), "--timeout"),
        (("--timeout", "nan"), "--timeout"),
        (("--device", "-1"), "--device"),
        (("--lds", "-1"), "--lds"),
        (("--lds", "5000000000"), "--lds"),
        (("--grid", "4294967296"), "at most 4294967295"),
        (("--grid", "99999999999999999999"), "three numbers"),
        (("--grid", "1,,1"), "three numbers"),
        (("--block", "65600"), "at most 1024"),
        (("--block", "64,64"), "4096 work-items"),
        (("--variant", "/tmp"), "/tmp"),
        (("--compare", "/nowhere.co"), "/nowhere.co"),
        (("--dump-output", "/dev/null"), "/dev/null"),
        (("--dump-output", "/proc/nowhere"), "/proc/nowhere"),
    ],
)
def test_wrong_usage_is_named_with_the_next_step(stages, scaled, words, said):
    """None of these numbers may be cut to 32 or 16 bits on its way to the device."""
    before = sorted((stages.store / "artifacts").rglob("*"))
    done = stages.replay(scaled, *words).must(2)
    assert said in done.err
    assert "next:" in done.err
    assert sorted((stages.store / "artifacts").rglob("*")) == before


@pytest.mark.parametrize(("length", "reason"), [(0, "it is empty"), (3000, "damaged code object")])
def test_a_code_object_that_is_cut_off_is_named(stages, scaled, variant, tmp_path, length, reason):
    cut = tmp_path / "cut.co"
    cut.write_bytes(variant("idempotent").read_bytes()[:length])
    for option in ("--variant", "--compare"):
        done = stages.replay(scaled, option, cut).must(2)
        assert f"cut.co: {reason}" in done.err
        assert "next:" in done.err


def test_a_code_object_that_is_damaged_inside_is_refused_or_a_result(stages, scaled, variant, tmp_path):
    content = bytearray(variant("idempotent").read_bytes())
    for at in range(len(content) // 3, len(content) // 3 + 400):
        content[at] ^= 0x5A
    (tmp_path / "damaged.co").write_bytes(content)
    done = stages.replay(scaled, "--variant", tmp_path / "damaged.co")
    assert done.code in (0, 2, 3, 4, 6), done.err
    assert "Traceback" not in done.err


def test_errors_of_the_replayer_name_the_capture_and_the_next_step(stages, scaled):
    done = stages.replay(scaled, "--device", 3).must(6)
    assert f"capture {scaled[:12]}: there is no GPU 3" in done.err
    assert "next:" in done.err


def test_a_chunk_that_is_missing_is_named(stages, scaled):
    states = [region["pre"] for region in stages.show(scaled)["regions"] if region["pre"]]
    chunk = next(each for state in states for each in stages.show_object(state)["chunks"] if each)
    (stages.store / "objects" / chunk[:2] / chunk).unlink()
    done = stages.replay(scaled).must(3)
    assert chunk in done.err
    assert f"capture {scaled[:12]}: " in done.err
    assert "kc-store check" in done.err


def test_options_that_go_together(stages, scaled, variant):
    same = variant("idempotent")
    words = ("--compare", same, "--flush-cache", "--iterations", 2, "--warmup", 1, "--no-verify")
    for more in ((), ("--hip-launch",)):
        done = stages.replay(scaled, *words, *more).must().manifest
        assert done["matches_golden"] is True
        assert len(done["comparison"]["baseline"]["samples_ns"]) == 2
    shaped = stages.replay(scaled, "--compare", same, "--grid", 256, "--block", 64, "--hip-launch").must()
    assert shaped.manifest["matches_golden"] is None
    assert shaped.manifest["comparison"]["ratio"] > 0


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
    children = Path(f"/proc/{stage.pid}/task/{stage.pid}/children")
    deadline = time.monotonic() + 60
    while not (replayers := [pid for pid in children.read_text().split() if is_replayer(pid)]):
        assert time.monotonic() < deadline
        os.sched_yield()
    stage.send_signal(number)
    out, err = stage.communicate(timeout=60)
    assert stage.returncode in (128 + number, -number), err
    assert out == ""
    assert "Traceback" not in err
    assert not is_replayer(replayers[0])
    assert stages.run("show", "@replay").code == 3


def is_replayer(pid: str) -> bool:
    """Whether the runtime of a replayer has started its threads."""
    process = Path("/proc", pid)
    try:
        return (
            b"kc-replay-hsa" in (process / "cmdline").read_bytes() and len(list(process.glob("task/*"))) > 1
        )
    except OSError:
        return False
