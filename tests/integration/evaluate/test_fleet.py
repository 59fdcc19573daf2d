"""kc-evaluate on a Ray cluster and on Slurm, both on this machine: `make test-fleet`, on the software GPU."""

from __future__ import annotations

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
from slurm_cluster import SlurmCluster
from stages import executable

from kerncap_stages.machine.temporary import PREFIX

HELPERS = Path(__file__).parents[2] / "helpers"
WAYS = {
    "right": "right", "faster": "right", "leaks": "right", "half": "wrong", "null": "wrong",
    "keeps_results": "wrong", "signature": "refused",
}  # fmt: skip
COPIES = 8
LIMIT = ("--timeout", "20")

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


def start(stages, folder, *words, **variables):
    command = [*executable("evaluate"), "@capture", str(folder), *LIMIT, *words, "--json"]
    environment = {**os.environ, "KERNCAP_STORE": str(stages.store), **variables}
    return subprocess.Popen(
        command, env=environment, cwd=stages.folder, stdin=subprocess.DEVNULL, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def finish(process):
    out, err = process.communicate(timeout=300)
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


@pytest.fixture
def ray_cluster(ray):  # noqa: ARG001
    """A cluster of four nodes. ``remains``: the temporary folder of its nodes."""
    words = [sys.executable, str(HELPERS / "ray_cluster.py"), "4"]
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
