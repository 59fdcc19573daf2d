"""Workers on other machines, over channels: what comes back, and what a lost node costs. Nodes are local."""

from __future__ import annotations

import json
import signal
import sys
import threading
from pathlib import Path

import made_up
import pytest
from local_nodes import HELPERS

from kerncap_stages.errors import DeviceError, UsageError
from kerncap_stages.evaluate import channel as channel_module
from kerncap_stages.evaluate import on_ray
from kerncap_stages.evaluate import where as where_module
from kerncap_stages.evaluate.candidates import list_candidates
from kerncap_stages.evaluate.channel import StreamChannel, read_message, write_message
from kerncap_stages.evaluate.ends import EvaluationInterrupted
from kerncap_stages.evaluate.engine import EvaluateSettings, run_evaluate
from kerncap_stages.evaluate.node_folder import NodeFolder
from kerncap_stages.evaluate.subject import Subject
from kerncap_stages.machine.temporary import PREFIX
from kerncap_stages.manifests import load_as
from kerncap_stages.manifests.evaluation import Evaluation
from kerncap_stages.store.collect import collect_garbage

SYMBOL = "_Z5scalePfS_fi"


@pytest.fixture
def capture(store):
    return made_up.publish(store, b"code object", SYMBOL)


@pytest.fixture
def evaluate(store, capture, tmp_path, place):  # noqa: ARG001
    folder = tmp_path / "variants"
    folder.mkdir()

    def run(said, **settings):
        for name, text in said.items():
            (folder / name).write_text(text)
        candidates = list_candidates([str(folder / name) for name in said])
        return run_evaluate(Subject(store, (capture,)), candidates, EvaluateSettings(on="test", **settings))

    return run


def asked(tmp_path):
    path = tmp_path / "tasks"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def outcomes(made):
    return {Path(str(each.name)).name: each.outcome.value for each in made.variants}


def test_verdicts_come_back_with_all_that_they_refer_to(evaluate, store, place):
    said = {f"{number}.hsaco": f"right {number}" for number in range(1, 8)} | {"wrong.hsaco": "wrong"}
    digest, made = evaluate(said)
    wanted = {name: word.split()[0] for name, word in said.items()}
    assert outcomes(made) == wanted
    assert made.variants[0].rank == 1
    assert sorted(set(place.opened)) == [0, 1, 2]
    assert place.left == 1
    collect_garbage(store)
    assert load_as(store, digest, Evaluation) == made
    for variant in made.variants:
        assert store.get(variant.code.digest).decode() == said[Path(str(variant.name)).name]
        assert (store.root / "artifacts" / variant.cases[0].verdict.digest).exists()


def test_a_rerun_takes_what_this_kind_of_node_judged(evaluate, tmp_path):
    said = {f"{number}.hsaco": f"right {number}" for number in range(1, 6)}
    first = evaluate(said)[1]
    assert len(asked(tmp_path)) == 5
    again = evaluate({**said, "new.hsaco": "wrong"})[1]
    assert len(asked(tmp_path)) == 6
    assert again.variants[:5] == first.variants


def test_machines_of_nodes_are_told_apart(evaluate, monkeypatch, tmp_path):
    monkeypatch.setenv("KERNCAP_TEST_MACHINES", "differ")
    said = {f"{number}.hsaco": f"right {number}" for number in range(1, 9)}
    monkeypatch.setenv("KERNCAP_TEST_EACH", "waits")  # until all nodes have begun
    _, made = evaluate(said)
    machines = {each.cases[0].machine or made.machine for each in made.variants}
    assert len(machines) == 3
    assert made.machine in machines
    before = len(asked(tmp_path))
    _, again = evaluate(said)
    assert len(asked(tmp_path)) == before  # found under the machine that judged it
    assert {each.cases[0].machine or again.machine for each in again.variants} == machines


def test_a_lost_node_loses_no_verdict(evaluate, tmp_path, monkeypatch):
    monkeypatch.setenv("KERNCAP_TEST_EACH", "waits")  # until all nodes have begun
    (tmp_path / "nodes/kill-1").touch()  # the node of place 1 dies at its second task
    said = {f"{number}.hsaco": f"right {number}" for number in range(1, 30)}
    _, made = evaluate(said)
    assert set(outcomes(made).values()) == {"right"}
    assert (tmp_path / "nodes/killed-1").exists()
    assert len(asked(tmp_path)) == 29


def test_a_node_that_cannot_start_leaves_the_work_to_the_others(evaluate, place):
    place.fails = {1: True, 2: True}
    _, made = evaluate({f"{number}.hsaco": f"right {number}" for number in range(1, 6)})
    assert set(outcomes(made).values()) == {"right"}
    assert len(place.opened) >= 4


def test_no_node_at_all_is_an_error_that_says_why(evaluate, place):
    place.fails = dict.fromkeys(range(1, 100), True)
    with pytest.raises(DeviceError, match="the node is down"):
        evaluate({"a.hsaco": "right 1"})
    assert len(place.opened) == 18  # six times at each of three places


def test_a_variant_that_takes_nodes_down_gets_no_verdict(evaluate):
    said = {f"{number}.hsaco": f"right {number}" for number in range(1, 12)} | {
        "bad.hsaco": "takes node down"
    }
    _, made = evaluate(said)
    assert outcomes(made) == {**dict.fromkeys(said, "right"), "bad.hsaco": "unjudged"}
    assert "node was lost" in made.variants[-1].reasons[0]


def test_a_worker_process_that_dies_on_its_node_counts_as_here(evaluate, tmp_path):
    _, made = evaluate({"a.hsaco": "right 5", "dies.hsaco": "dies", "once.hsaco": "dies once"}, workers=1)
    assert outcomes(made) == {"a.hsaco": "right", "dies.hsaco": "unjudged", "once.hsaco": "right"}
    assert "exit code 9" in made.variants[1].reasons[0]
    assert len(asked(tmp_path)) == 5


def test_a_node_with_another_version_is_refused(evaluate, monkeypatch):
    monkeypatch.setenv("KERNCAP_TEST_VERSION", "99.0")
    with pytest.raises(DeviceError, match=r"kerncap-stages 99\.0, and the coordinator"):
        evaluate({"a.hsaco": "right 1"}, workers=1)


def test_a_job_that_prints_is_no_node(evaluate, place):
    place.words = ("messages.py",)  # any program that ends without an answer
    with pytest.raises(DeviceError, match="node was lost"):
        evaluate({"a.hsaco": "right 1"}, workers=1)


@pytest.mark.parametrize("on", ["moon", "", "ray://"])
def test_what_is_no_place_is_refused(store, capture, on):
    with pytest.raises(UsageError, match=f"--on '{on}' names nothing that workers run on"):
        run_evaluate(Subject(store, (capture,)), [], EvaluateSettings(on=on))


def test_a_message_is_read_as_it_was_written(tmp_path):
    path = tmp_path / "message"
    with path.open("wb") as file:
        write_message(file, {"call": "a\n"}, [b"", b"\0" * 70_000])
        write_message(file, {}, [])
    with path.open("rb") as file:
        assert read_message(file) == ({"call": "a\n"}, [b"", b"\0" * 70_000])
        assert read_message(file) == ({}, [])
        assert read_message(file) is None
    path.write_bytes(path.read_bytes()[:50])
    with path.open("rb") as file, pytest.raises(ValueError, match="ends early"):
        read_message(file)


def test_the_last_worker_of_a_node_removes_its_folder(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    first, second = NodeFolder("key"), NodeFolder("key")
    assert not first.prepare()
    first.leave()
    assert not second.prepare()  # the first one did not finish
    (folder,) = tmp_path.iterdir()
    assert folder.stat().st_mode & 0o077 == 0
    second.leave()
    assert list(tmp_path.iterdir()) == []


class ShotChannel(StreamChannel):
    """Ends as with an actor that Ray kills: its child is killed, and the streams of the node end."""

    def __init__(self, command):
        super().__init__([*on_ray._APART, *command])

    def kill(self):
        self._process.kill()
        self._process.stdin.close()


def test_nothing_stays_on_nodes_after_an_interrupt(
    store, capture, tmp_path, place, monkeypatch, waiting_gate
):
    remains = tmp_path / "of nodes"
    remains.mkdir()
    monkeypatch.setenv("TMPDIR", str(remains))
    monkeypatch.setenv("KERNCAP_TEST_EACH", "waits")  # until all nodes have begun
    words = [sys.executable, str(HELPERS / "fake_node.py")]
    monkeypatch.setattr(place, "open", lambda number: ShotChannel([*words, str(number)]))
    paths = []
    for name, said in {"a": "right 1", "b": "slow", "c": "slow too"}.items():
        paths.append(tmp_path / f"{name}.hsaco")
        paths[-1].write_text(said)
    seen = []

    def interrupt(_number, _variant):
        seen.extend(each.name for each in remains.glob(f"{PREFIX}node-*"))
        raise KeyboardInterrupt

    with pytest.raises(EvaluationInterrupted):
        run_evaluate(
            Subject(store, (capture,)),
            list_candidates(map(str, paths)),
            EvaluateSettings(on="test"),
            interrupt,
        )
    assert not waiting_gate.exists()
    assert len(seen) == 1
    assert list(remains.iterdir()) == []


@pytest.fixture
def waiting_gate(tmp_path, monkeypatch):
    """What slow variants wait for. It opens in the end, so that a failing test ends."""
    gate = tmp_path / "gate"
    monkeypatch.setenv("KERNCAP_TEST_GATE", str(gate))
    timer = threading.Timer(60, gate.mkdir)
    timer.start()
    yield gate
    timer.cancel()


def test_a_program_that_ignores_a_polite_signal_is_killed(monkeypatch):
    monkeypatch.setattr(channel_module, "_END_S", 0.2)
    script = "import signal; signal.signal(15, signal.SIG_IGN); print(flush=True); signal.pause()"
    channel = StreamChannel([sys.executable, "-c", script])
    assert channel._process.stdout.readline() == b"\n"
    channel.kill()
    assert channel._process.wait(60) == -signal.SIGKILL
    channel.close()


def test_slurm_needs_srun_and_a_number(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="no srun here"):
        where_module._open_place("slurm", is_software=True)
    (tmp_path / "srun").write_text("#!/bin/sh\n")
    (tmp_path / "srun").chmod(0o755)
    place = where_module._open_place("slurm --partition='a b'", is_software=False)
    assert "--partition=a b" in place._command
    assert "--gpus-per-task=1" in place._command
    monkeypatch.delenv("SLURM_NTASKS", raising=False)
    with pytest.raises(UsageError, match="--workers"):
        place.count_free()
    monkeypatch.setenv("SLURM_NTASKS", "12")
    assert place.count_free() == 12
