"""Which GPU a worker sees; what a worker tells; and that a replay ends that takes too much memory."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest

from kerncap_stages.evaluate import workers
from kerncap_stages.evaluate.memory_limit import MemoryLimit, measure_memory
from kerncap_stages.evaluate.tasks import (
    Result,
    Setup,
    Task,
    read_result,
    read_setup,
    read_task,
    write,
)
from kerncap_stages.evaluate.workers import (
    choose_gpu,
    count_workers,
    find_neighbours,
    list_gpus,
    share_cores,
)
from kerncap_stages.replay.process import track
from kerncap_stages.validate.compare.bounds import Bounds
from kerncap_stages.validate.replays.speculation import NO_NEIGHBOURS, Neighbours
from kerncap_stages.validate.request import JudgeSettings


@pytest.fixture(autouse=True)
def four_gpus(monkeypatch, tmp_path):
    """A machine with a CPU and four AMD GPUs."""
    for number, simd_count in enumerate((0, 416, 416, 416, 416)):
        node = tmp_path / "nodes" / str(number)
        node.mkdir(parents=True)
        (node / "properties").write_text(f"cpu_cores_count 0\nsimd_count {simd_count}\nmem_banks_count 1\n")
    monkeypatch.setattr(workers, "_KFD_NODES", tmp_path / "nodes")
    for name in ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)


def test_each_worker_has_a_gpu_of_its_own_where_the_capture_had_its():
    assert count_workers("hsa", is_software=False) == 4
    seen = [choose_gpu("hsa", 1, place) for place in range(4)]
    assert [each["ROCR_VISIBLE_DEVICES"].split(",")[1] for each in seen] == ["0", "1", "2", "3"]
    assert all(sorted(each["ROCR_VISIBLE_DEVICES"].split(",")) == ["0", "1", "2", "3"] for each in seen)


def test_only_what_the_user_chose_is_used(monkeypatch):
    monkeypatch.setenv("ROCR_VISIBLE_DEVICES", "3, 1,GPU-ab")
    assert list_gpus("hsa") == ["3", "1", "GPU-ab"]
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "2,0")
    assert list_gpus("hsa") == ["GPU-ab", "3"]
    assert choose_gpu("hsa", 0, 1) == {
        "ROCR_VISIBLE_DEVICES": "3,GPU-ab",
        "HIP_VISIBLE_DEVICES": "0,1",
    }
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,7")
    assert [choose_gpu("cuda", 0, place) for place in range(3)] == [
        {"CUDA_VISIBLE_DEVICES": each} for each in ("5,7", "7,5", "5,7")
    ]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5")
    assert choose_gpu("cuda", 0, 0) == {}


@pytest.mark.parametrize("name", ["HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"])
def test_the_one_gpu_that_hip_was_given_is_the_one_that_rocr_uses(monkeypatch, name):
    """As Ray's actors and steps of Slurm have it: the replayer would else work on ROCr's first GPU."""
    monkeypatch.setenv(name, "3")
    assert count_workers("hsa", is_software=False) == 1
    assert choose_gpu("hsa", 0, 0) == {
        "ROCR_VISIBLE_DEVICES": "3",
        "HIP_VISIBLE_DEVICES": "0",
    }


@pytest.mark.parametrize(
    ("count", "software", "neighbours"),
    [
        (1, False, NO_NEIGHBOURS),
        (4, False, Neighbours(on_machine=True)),
        (5, False, Neighbours(on_machine=True, on_device=True)),
        (5, True, Neighbours(on_machine=True)),
    ],
)
def test_workers_share_the_machine_and_more_than_the_gpus_share_a_gpu(count, software, neighbours):
    device = SimpleNamespace(software=software)
    capture = SimpleNamespace(device=device, environment=SimpleNamespace(backend="hsa"))
    assert find_neighbours(count, capture) == neighbours


@pytest.mark.parametrize("name", ["ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"])
def test_an_empty_choice_is_no_gpu_and_no_choice_is_all(monkeypatch, name):
    backend = "cuda" if name.startswith("CUDA") else "hsa"
    monkeypatch.setenv(name, "")
    assert list_gpus(backend) == []
    assert choose_gpu(backend, 0, 1) == {}  # the worker sees what we see
    assert count_workers(backend, is_software=False) == 1
    monkeypatch.delenv(name)
    assert backend == "cuda" or list_gpus(backend) == ["0", "1", "2", "3"]


def test_software_gpus_share_the_cores_unless_the_user_decides(monkeypatch):
    name = "KERNCAP_SOFTGPU_WORKERS"
    monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(workers.os, "sched_getaffinity", lambda _: set(range(8)))
    assert [share_cores(count)[name] for count in (1, 2, 3, 8, 20)] == ["8", "4", "2", "1", "1"]
    monkeypatch.setenv(name, "3")
    assert share_cores(2) == {}


def test_names_that_hip_takes_are_kept(monkeypatch):
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "GPU-cd,1,9")
    assert list_gpus("hsa") == ["GPU-cd", "1"]


def test_messages_are_read_as_they_were_written():
    settings = JudgeSettings(Bounds(1e-3, None, 2), "fp32", timeout_s=5.0, seed=7)
    setup = Setup("/a\nstore", False, settings, "machine", 20, True, 1, 2, 3, neighbours=Neighbours(True))
    task = Task(1, "capture", None, "/code", {"grid_blocks": [1, 2, 3]}, 2**32)
    result = Result(1, True, "v", "c", ("because", "\udcff"), time={"ratio": 0.5}, kept=("key",))
    assert read_setup(write(setup)) == setup
    assert read_task(write(task)) == task
    assert read_result(write(result)) == result
    assert all(write(each).count(b"\n") == 1 for each in (setup, task, result))


def test_a_worker_of_another_version_is_noticed():
    setup = Setup("/store", False, JudgeSettings(), "machine", 20, False, 1, 2, 3, version=99)
    with pytest.raises(ValueError, match="version 99"):
        read_setup(write(setup))


def run_with(limit_bytes, size_bytes):
    program = f"import time; kept = bytearray({size_bytes}); print('made', flush=True); time.sleep(600)"
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    with process, track(process), MemoryLimit(limit_bytes) as limit:
        process.stdout.readline()
        try:
            process.wait(60 if 0 < limit_bytes < size_bytes else 0.3)
        except subprocess.TimeoutExpired:
            process.kill()
    return limit.exceeded


def test_a_replay_that_takes_too_much_memory_ends():
    assert run_with(64 << 20, 128 << 20)


def test_others_go_on():
    assert not run_with(512 << 20, 1 << 20)
    assert not run_with(0, 128 << 20)


def test_memory_of_a_process_that_ended_is_none():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert measure_memory(process.pid) == 0
