"""kc-evaluate on a Ray cluster and on Slurm, both on this machine: `make test-fleet`, on the software GPU."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from evaluation_memory import EvaluationMemory
from programs import SOURCES
from slurm_cluster import SlurmCluster
from stages import Stages, executable

from kerncap_stages.machine.temporary import PREFIX
from kerncap_stages.manifests import dump, load_as
from kerncap_stages.manifests.capture import Capture
from kerncap_stages.store import Store

HELPERS = Path(__file__).parents[2] / "helpers"
BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
WAYS = {
    "right": "right", "faster": "right", "leaks": "right", "half": "wrong", "null": "wrong",
    "keeps_results": "wrong", "signature": "refused",
}  # fmt: skip
COPIES = 8
LIMIT = ("--timeout", "20")
THOUSAND = 1000
THOUSAND_RIGHT = {
    "memory", "register", "pointers", "unroll-2", "unroll-4", "unroll-8", "no-unroll", "through-lds",
    "malloc",
}  # fmt: skip
THOUSAND_LIMIT_S = 3600  # ten minutes where two cores have nothing else to do
MAX_BYTES = 2 << 30

pytestmark = pytest.mark.fleet


@pytest.fixture
def variants(stages, way):
    """Many variants, all with other bytes, and what each has to be."""
    folder = stages.folder / "variants"
    folder.mkdir()
    wanted = {}
    for name, outcome in WAYS.items():
        for number in range(COPIES):
            path = folder / f"{number}-{name}.hsaco"
            code = bytearray(way(name).read_bytes())
            code[code.index(b"\x7fELF") + 15] = number  # padding of the header
            path.write_bytes(code)
            wanted[path.name] = outcome
    return folder, wanted


def outcomes(manifest):
    return {Path(each["name"]).name: each["outcome"] for each in manifest["variants"]}


def start(stages, folder, *words, limit=LIMIT, capture="@capture", **variables):
    command = [*executable("evaluate"), capture, str(folder), *limit, *words, "--json"]
    environment = {**os.environ, "KERNCAP_STORE": str(stages.store), **variables}
    return subprocess.Popen(
        command, env=environment, cwd=stages.folder, stdin=subprocess.DEVNULL, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def finish(process, limit_s=300):
    out, err = process.communicate(timeout=limit_s)
    assert process.returncode == 0, err
    return json.loads(out), err


def require_same_as_here(stages, folder, manifest):
    """Judged again on this machine, everything comes out alike; also instructions, where they are steady."""
    here = stages.run("evaluate", "@capture", folder, *LIMIT, "--fresh", "--json").must().manifest
    assert outcomes(here) == outcomes(manifest)
    assert ratios(here) == ratios(manifest)


def ratios(manifest):
    """How often one that leaks waits for the host varies."""
    return {each["name"]: each["ratio"] for each in manifest["variants"] if "leaks" not in each["name"]}


@pytest.fixture(scope="session")
def ray():
    if importlib.util.find_spec("ray") is None:
        pytest.skip("Ray is not installed here: `make test-fleet` installs it")


@contextlib.contextmanager
def open_cluster(*words):
    """A cluster of Ray. ``remains``: the temporary folder of its nodes."""
    words = [sys.executable, str(HELPERS / "ray_cluster.py"), *words]
    # Ray's sockets are in it, and their paths have 107 bytes at most: pytest's own folders are too long.
    with (
        tempfile.TemporaryDirectory(prefix="kc-", dir="/tmp", ignore_cleanup_errors=True) as folder,
        subprocess.Popen(
            words,
            env={**os.environ, "TMPDIR": folder},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        remains = Path(folder)
        process.remains = remains
        process.address = process.stdout.readline().strip()
        assert process.address
        yield process
        process.stdin.close()


@pytest.fixture
def ray_cluster(ray):  # noqa: ARG001
    """A cluster of four nodes."""
    with open_cluster("4") as cluster:
        yield cluster


def test_a_killed_node_of_ray_loses_no_verdict(stages, variants, ray_cluster):
    folder, wanted = variants
    process = start(stages, folder, "--on", "ray", RAY_ADDRESS=ray_cluster.address)
    for _ in range(len(wanted) // 4):
        process.stderr.readline()
    print("kill", file=ray_cluster.stdin, flush=True)
    assert ray_cluster.stdout.readline() == "killed\n"
    made, _ = finish(process)
    assert made["complete"]
    assert outcomes(made) == wanted
    store = stages.run("store", "check").must()
    assert "damaged" not in store.out
    require_same_as_here(stages, folder, made)


def test_nothing_stays_on_nodes_of_ray_after_an_interrupt(stages, variants, ray_cluster):
    process = start(stages, variants[0], "--on", "ray", RAY_ADDRESS=ray_cluster.address)
    process.stderr.readline()
    assert list(ray_cluster.remains.glob(f"{PREFIX}node-*"))
    process.terminate()
    _, err = process.communicate(timeout=120)
    assert "the same command goes on" in err
    ends_at = time.monotonic() + 60
    while remains := list(ray_cluster.remains.glob(f"{PREFIX}*")):
        assert time.monotonic() < ends_at, remains
        time.sleep(0.1)


def publish_as_of_a_gpu(stages):
    """The capture again, as if it were of a GPU of silicon. Here it is replayed on the software GPU."""
    store = Store.open(stages.store)
    capture = load_as(store, store.resolve("@capture"), Capture)
    devices = tuple(each.model_copy(update={"software": False}) for each in capture.environment.devices)
    changed = capture.model_copy(
        update={"environment": capture.environment.model_copy(update={"devices": devices})}
    )
    with store.begin_transaction() as transaction:
        return transaction.publish(dump(changed), "capture", [])


@pytest.mark.usefixtures("ray")
def test_cores_of_ray_judge_and_its_gpus_time(stages, variants):
    folder, wanted = variants
    capture = publish_as_of_a_gpu(stages)
    with open_cluster("1", "--gpus") as cluster:
        words = ("--on", "ray --cpus 1", "--runs", "5")
        made, _ = finish(start(stages, folder, *words, capture=capture, RAY_ADDRESS=cluster.address))
    assert outcomes(made) == wanted, {each["name"]: each["reasons"] for each in made["variants"]}
    for each in made["variants"]:
        time_ = each["cases"][0]["time"]
        assert (time_ is not None) == (each["outcome"] == "right")
        assert time_ is None or time_["variant_ns"] > 0


@pytest.fixture(scope="session")
def slurm(tmp_path_factory):
    if shutil.which("slurmctld") is None:
        pytest.skip("Slurm is not installed here: `make test-fleet` makes a root with it")
    with SlurmCluster(tmp_path_factory.mktemp("slurm"), nodes=4) as cluster:
        yield cluster


def test_jobs_of_slurm_judge_and_a_lost_node_loses_no_verdict(stages, variants, slurm):
    folder, wanted = variants
    process = start(stages, folder, "--on", "slurm", "--workers", "4", **slurm.environment)
    for _ in range(len(wanted) // 4):
        process.stderr.readline()
    slurm.kill_node("node4")
    made, _ = finish(process)
    assert outcomes(made) == wanted
    assert slurm.run("squeue", "--noheader") == ""
    slurm.start_node("node4")
    require_same_as_here(stages, folder, made)


def test_steps_of_an_allocation_judge(stages, variants, slurm):
    folder, wanted = variants
    words = [*executable("evaluate"), "@capture", str(folder), *LIMIT, "--on", "slurm", "--json"]
    environment = {**os.environ, "KERNCAP_STORE": str(stages.store), **slurm.environment}
    done = subprocess.run(
        ["salloc", "--quiet", "--nodes=2", "--ntasks=2", *words],
        env=environment, cwd=stages.folder, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert outcomes(json.loads(done.stdout)) == wanted
    assert slurm.run("squeue", "--noheader") == ""


def test_an_interrupt_ends_the_jobs(stages, variants, slurm):
    process = start(stages, variants[0], "--on", "slurm", "--workers", "2", **slurm.environment)
    process.stderr.readline()
    process.terminate()
    _, err = process.communicate(timeout=120)
    assert "the same command goes on" in err
    assert slurm.run("squeue", "--noheader") == ""


def test_slurm_outside_of_an_allocation_needs_a_number(stages, variants, slurm):
    process = start(stages, variants[0], "--on", "slurm", **slurm.environment)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "--workers" in err


def test_options_reach_srun_whose_refusal_is_told(stages, variants, slurm):
    words = ("--on", "slurm --partition=none", "--workers", "1")
    process = start(stages, variants[0], *words, **slurm.environment)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 4, err
    assert "invalid partition" in err.lower()


@pytest.fixture
def thousand(tmp_path):
    """Stages on a capture of the demo's kernel; the folder of its variants; what each of these has to be."""
    demo = SOURCES / "demo"
    app = tmp_path / "app"
    words = ["hipcc", "-O3", f"-I{demo / 'include'}", "--offload-arch=gfx90a", "-o", app]
    subprocess.run([*words, demo / "src/main.cpp", demo / "src/matvec.hip"], check=True)
    stages = Stages(tmp_path / "store", tmp_path, "gfx90a")
    stages.capture("add_rows", app, options=("--dispatch", 1))
    folder = tmp_path / "variants"
    subprocess.run([sys.executable, BENCHMARKS / "many_variants.py", folder, str(THOUSAND)], check=True)
    kinds = {each.name: each.stem.partition("-")[2].rpartition("-")[0] for each in folder.glob("*.hsaco")}
    return (
        stages,
        folder,
        {name: "right" if kind in THOUSAND_RIGHT else "wrong" for name, kind in kinds.items()},
    )


def evaluate_the_thousand(thousand, kill, *words, **variables):
    """Kill a node when half of them are judged."""
    stages, folder, wanted = thousand
    assert len(wanted) == THOUSAND
    began = time.monotonic()
    with EvaluationMemory() as memory:
        process = start(stages, folder, *words, limit=("--timeout", "3"), **variables)
        for _ in range(THOUSAND // 2):
            process.stderr.readline()
        kill()
        made, _ = finish(process, THOUSAND_LIMIT_S)
    found = outcomes(made)
    differing = {name: found.get(name) for name, outcome in wanted.items() if found.get(name) != outcome}
    taken = f"{time.monotonic() - began:.0f} s, {memory.peak_bytes >> 20} MiB"
    print(f"{words[1]}: {THOUSAND - len(differing)} of {THOUSAND} verdicts as made, {taken}")
    assert not differing
    assert made["complete"]
    assert memory.peak_bytes < MAX_BYTES


@pytest.mark.slow
def test_a_thousand_variants_on_ray_with_a_killed_node(thousand, ray_cluster):
    def kill():
        print("kill", file=ray_cluster.stdin, flush=True)
        assert ray_cluster.stdout.readline() == "killed\n"

    evaluate_the_thousand(thousand, kill, "--on", "ray", RAY_ADDRESS=ray_cluster.address)


@pytest.mark.slow
def test_a_thousand_variants_on_slurm_with_a_killed_node(thousand, slurm):
    words = ("--on", "slurm", "--workers", "4")
    evaluate_the_thousand(thousand, lambda: slurm.kill_node("node4"), *words, **slurm.environment)
    slurm.start_node("node4")
