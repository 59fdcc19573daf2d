"""Many variants on the two GPUs of one machine, and of two nodes of a Ray cluster; workers that are lost."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from gpu_watch import GpuWatch
from nvidia_gpu import architecture
from programs import Build, Program, compile_all

HERE = Path(__file__).parent
HELPERS = HERE.parent / "helpers"
CAPTURED_NS = 200_000
WAYS = ("right", "wrong", "faults", "hangs")
OUTCOMES = {"right": "right", "wrong": "wrong", "faults": "wrong", "hangs": "wrong"}
# The clock that the kernels look at ticks every microsecond on some GPUs.
SLACK = 0.03
LIMIT_S = 240
CONTEXTS = 6
# Whoever runs these tests with CUDA_VISIBLE_DEVICES hides a GPU from them.
BOTH = {"CUDA_VISIBLE_DEVICES": "0,1"}

pytestmark = [pytest.mark.alone, pytest.mark.usefixtures("two_gpus")]


def make_variants(folder, **counts):
    """So many variants of each way; what each of them has to be, and the ratio of one that is right."""
    builds = {}
    for way, count in counts.items():
        for number in range(count):
            ns = 100_000 + 25_000 * number
            defines = (f"WAY={WAYS.index(way)}", f"NS={ns}")
            build = Build(
                Program(HERE / "variants/spins.cu"), architecture(), "O2", defines=defines, device_only=True
            )
            builds[f"{number:02}-{way}.cubin"] = (build, ns / CAPTURED_NS if way == "right" else None)
    made = compile_all([build for build, _ in builds.values()])
    folder.mkdir()
    for name, (build, _) in builds.items():
        path = made[build]
        assert isinstance(path, Path), path
        (folder / name).write_bytes(path.read_bytes())
    return {
        name: (OUTCOMES[Path(name).stem.partition("-")[2]], ratio)
        for name, (_, ratio) in sorted(builds.items())
    }


def start(kc, folder, capture, *words, **variables):
    command = ["kc-evaluate", capture, folder, "--runs", "9", "--fresh", "--timeout", "10", "--json", *words]
    return subprocess.Popen(
        [str(word) for word in command],
        env={**os.environ, "KERNCAP_STORE": str(kc.store), **variables},
        cwd=kc.folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process):
    out, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, err
    return json.loads(out)


def evaluate(kc, folder, capture, **variables):
    """The evaluation, and how long it took."""
    begun = time.monotonic()
    made = finish(start(kc, folder, capture, **variables))
    return made, time.monotonic() - begun


def require(made, wanted):
    """All verdicts are as the variants were made, and each that is right has its own time."""
    assert made["complete"]
    found = {Path(each["name"]).name: each for each in made["variants"]}
    assert {name: each["outcome"] for name, each in found.items()} == {
        name: outcome for name, (outcome, _) in wanted.items()
    }, {name: each["reasons"] for name, each in found.items()}
    for name, (_, ratio) in wanted.items():
        if ratio is None:
            assert found[name]["ratio"] is None
            continue
        time_ = found[name]["cases"][0]["time"]
        assert time_["captured_ns"] == pytest.approx(CAPTURED_NS, rel=SLACK), name
        assert found[name]["ratio"] == pytest.approx(ratio, rel=SLACK), name


def evaluate_with_rate(kc, folder, capture, **variables):
    """The evaluation, how long it took, and how many variants a second it judged behind the first ones.

    Until then it starts Python, the workers and their first contexts. Verdicts are told several at once.
    """
    count = len(list(folder.iterdir()))
    begun = time.monotonic()
    process = start(kc, folder, capture, **variables)
    times = []
    while len(times) < count and (line := process.stderr.readline()):
        if line.startswith(("right", "wrong")):
            times.append(time.monotonic())
    made = finish(process)
    took_s = time.monotonic() - begun
    at_first = sum(each < times[0] + 0.1 for each in times)
    return made, took_s, (count - at_first) / (times[-1] - times[0])


def measure_contexts(*gpus):
    """How many replay processes a second come and go that do nothing, one after the other on each GPU."""
    from kerncap_stages.machine.native_paths import find_native_file

    def run(gpu):
        for _ in range(CONTEXTS):
            subprocess.run(
                [find_native_file("kc-replay-cuda"), "--standby", "0"],
                env={**os.environ, "CUDA_VISIBLE_DEVICES": gpu},
                stdin=subprocess.DEVNULL,
                check=True,
            )

    begun = time.monotonic()
    with ThreadPoolExecutor(len(gpus)) as threads:
        list(threads.map(run, gpus))
    return len(gpus) * CONTEXTS / (time.monotonic() - begun)


@pytest.fixture
def capture(kc, built):
    return kc.capture("takes_200_us", built["known_times"])


def test_the_rate_grows_with_the_gpus(kc, capture, tmp_path):
    """Of right variants, which share a process: its driver makes contexts one at a time for all GPUs."""
    make_variants(tmp_path / "first", right=2)
    evaluate(kc, tmp_path / "first", capture, **BOTH)
    folder = tmp_path / "variants"
    wanted = make_variants(folder, right=96)
    alone, one_s, one = evaluate_with_rate(kc, folder, capture, CUDA_VISIBLE_DEVICES="0")
    beside, two_s, two = evaluate_with_rate(kc, folder, capture, **BOTH)
    whole = f"{len(wanted)} with the start in {one_s:.1f} s and {two_s:.1f} s"
    print(f"{one:.2f} variants a second on one GPU, {two:.2f} on two: {two / one:.2f} times as many; {whole}")
    ceiling = measure_contexts("0"), measure_contexts("0", "1")
    print(f"processes with a context and nothing else: {ceiling[0]:.2f} a second, {ceiling[1]:.2f} on two")
    require(alone, wanted)
    require(beside, wanted)
    # A process for each verdict and each time could not do that.
    assert one > ceiling[0]
    assert two > 1.4 * one


def test_both_gpus_judge_as_one_does(kc, capture, tmp_path):
    make_variants(tmp_path / "first", right=2)
    evaluate(kc, tmp_path / "first", capture, **BOTH)  # what is read for the first time is slow
    folder = tmp_path / "variants"
    wanted = make_variants(folder, right=16, wrong=10, faults=6)
    with GpuWatch() as one:
        alone, one_s = evaluate(kc, folder, capture, CUDA_VISIBLE_DEVICES="0")
    with GpuWatch() as two:
        beside, two_s = evaluate(kc, folder, capture, **BOTH)
    rates = f"{len(wanted) / one_s:.2f} variants a second on one GPU, {len(wanted) / two_s:.2f} on two"
    print(f"{rates}: {one_s / two_s:.2f} times as many; {one_s:.1f} s and {two_s:.1f} s")
    require(alone, wanted)
    require(beside, wanted)
    assert list(one.workers.values()) == ["0"]
    assert len(one.used) == 1
    # Each GPU has one worker, so nothing else is on it while that one times.
    assert sorted(two.workers.values()) == ["0", "1"]
    assert two.used == {0, 1}


def test_a_worker_killed_on_one_gpu_loses_no_verdict(kc, capture, tmp_path):
    folder = tmp_path / "variants"
    wanted = make_variants(folder, right=8, wrong=6, faults=2, hangs=1)
    with GpuWatch() as watch:
        process = start(kc, folder, capture, **BOTH)
        killed = watch.wait_for_worker("1")
        for _ in range(4):
            process.stderr.readline()
        os.kill(killed, signal.SIGKILL)
        again = watch.wait_for_worker("1", but=frozenset({killed}))
        made = finish(process)
    require(made, wanted)
    assert watch.workers[again] == "1"
    assert sorted(watch.workers.values()) == ["0", "1", "1"]


def test_a_search_goes_on_both_gpus(kc, spins_project, tmp_path):
    values = [200000, 50000, 400000, 100000, 150000, 250000, 300000, 350000]
    (spins_project / "tune.toml").write_text(f"[define]\nSPIN = {values}\n")
    lines = tmp_path / "each.jsonl"
    with GpuWatch() as watch, pytest.MonkeyPatch.context() as patch:
        patch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
        words = ("--sampler", "grid", "--runs", 9, "--lines", lines)
        kc.ok("kc-tune", spins_project, *words)
        applied = kc.ok("kc-tune", spins_project, "--trials", 0, "--apply")
    told = {each["parameters"]["SPIN"]: each for each in map(json.loads, lines.read_text().splitlines())}
    assert told.pop(50000)["outcome"] == "wrong"
    assert {spin: each["ratio"] for spin, each in told.items()} == pytest.approx(
        {spin: spin / CAPTURED_NS for spin in values if spin != 50000}, rel=SLACK
    )
    assert set(watch.workers.values()) == {"0", "1"}
    assert watch.used == {0, 1}
    assert "is now SPIN=100000" in applied.err


@pytest.fixture
def ray_cluster():
    """A cluster of two nodes, each with one of the GPUs."""
    if importlib.util.find_spec("ray") is None:
        pytest.skip("Ray is not installed here")
    # Ray's sockets are in it, and their paths have 107 bytes at most: pytest's own folders are too long.
    with (
        tempfile.TemporaryDirectory(prefix="kc-", dir="/tmp", ignore_cleanup_errors=True) as folder,
        subprocess.Popen(
            [sys.executable, str(HELPERS / "ray_cluster.py"), "2", "--gpus"],
            env={**os.environ, "TMPDIR": folder},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        process.address = process.stdout.readline().strip()
        assert process.address
        yield process
        process.stdin.close()


def test_a_killed_gpu_node_of_ray_loses_no_verdict(kc, capture, tmp_path, ray_cluster):
    folder = tmp_path / "variants"
    wanted = make_variants(folder, right=12, wrong=8, faults=4)
    with GpuWatch() as watch:
        process = start(kc, folder, capture, "--on", "ray", RAY_ADDRESS=ray_cluster.address)
        for gpu in ("0", "1"):
            watch.wait_for_worker(gpu)
        for _ in range(len(wanted) // 4):
            process.stderr.readline()
        assert watch.used == {0, 1}
        print("kill", file=ray_cluster.stdin, flush=True)
        assert ray_cluster.stdout.readline() == "killed\n"
        made = finish(process)
    require(made, wanted)
    assert set(watch.workers.values()) == {"0", "1"}
