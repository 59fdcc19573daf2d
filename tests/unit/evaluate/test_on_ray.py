"""Ray as a place for workers: how a cluster is joined, and what actors ask for. Ray itself is made up."""

from __future__ import annotations

import signal
import sys
from types import ModuleType, SimpleNamespace

import pytest

from kerncap_stages.errors import UsageError
from kerncap_stages.evaluate import where as where_module


class MadeUpRay(ModuleType):
    """A cluster that cannot be joined, or has so many GPUs."""

    def __init__(self, gpus=None):
        super().__init__("ray")
        self.gpus, self.actors, self.joined = gpus, [], []

    def is_initialized(self):
        return False

    def init(self, address, **_):
        if self.gpus is None:
            raise ConnectionError("Could not find any running Ray instance.")
        self.joined.append(address)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # as Ray's own does

    def cluster_resources(self):
        return {"CPU": 8.0, "GPU": float(self.gpus)}

    def remote(self, cls):
        return SimpleNamespace(options=lambda **options: self.actors.append((cls.__name__, options)))


def test_ray_is_an_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError, match="--on ray://head:1: Ray is not installed") as caught:
        where_module._open_place("ray://head:1", is_software=True)
    assert "kerncap-stages[ray]" in caught.value.hint


def test_ray_without_a_cluster_is_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", MadeUpRay())
    with pytest.raises(UsageError, match="any running Ray instance") as caught:
        where_module._open_place("ray", is_software=True)
    assert "ray start --head" in caught.value.hint


@pytest.mark.parametrize(
    ("on", "is_software", "address", "needs", "count"),
    [
        ("ray", False, "auto", {"num_cpus": 0, "num_gpus": 1}, 3),
        ("ray://head:10001", True, "ray://head:10001", {"num_cpus": 1}, 8),
    ],
)
def test_an_actor_has_one_gpu_or_one_core(monkeypatch, on, is_software, address, needs, count):
    ray = MadeUpRay(gpus=3)
    monkeypatch.setitem(sys.modules, "ray", ray)
    place = where_module._open_place(on, is_software=is_software)
    assert ray.joined == [address]
    assert ray.actors == [("NodeActor", {"max_restarts": 0, "max_task_retries": 0, **needs})]
    assert place.count_free() == count


def test_ray_does_not_take_over_what_sigterm_does(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", MadeUpRay(gpus=1))

    def mine(*_):
        """What the command does: it publishes what was judged."""

    before = signal.signal(signal.SIGTERM, mine)
    try:
        where_module._open_place("ray", is_software=True)
        assert signal.getsignal(signal.SIGTERM) is mine
    finally:
        signal.signal(signal.SIGTERM, before)


def test_cores_may_judge_for_gpus(monkeypatch):
    ray = MadeUpRay(gpus=3)
    monkeypatch.setitem(sys.modules, "ray", ray)
    assert where_module._read_ray("ray --cpus 16") == (None, 16)
    assert where_module._read_ray("ray://head:1 --cpus 2") == ("ray://head:1", 2)
    assert where_module._open_place("ray --cpus 16", is_software=False).count_free() == 3
    assert ray.actors[0][1]["num_gpus"] == 1


@pytest.mark.parametrize("words", ["--cpus", "--cpus 0", "--cpus -1", "--cpus x", "--gpus 2", "--cpus 2 4"])
def test_what_is_no_option_of_ray_is_refused(words):
    with pytest.raises(UsageError, match=f"'{words}' is no option of ray"):
        where_module._open_place(f"ray {words}", is_software=False)
