"""Replayers that wait: they take their words through a pipe, and end when nobody wants them."""

from __future__ import annotations

import json
import os

import pytest

from kerncap_stages.replay import standby as standby_module
from kerncap_stages.replay.standby import Standbys


@pytest.fixture
def standbys(monkeypatch):
    # The replayer that is built everywhere; it does not start its GPU before it has a plan.
    monkeypatch.setitem(standby_module.REPLAYERS, "cuda", "kc-replay-hsa")
    with Standbys("cuda", 0) as opened:
        yield opened


def test_a_replayer_that_waits_does_what_its_words_say(standbys, tmp_path):
    standbys.start(2)
    reports = []
    for name in ("of one", os.fsdecode(b"of \xff two")):
        folder = tmp_path / name
        folder.mkdir()
        standby = standbys.take([str(folder / "no plan"), "--untimed", "--report", str(folder / "report")])
        assert standby.run(60) == 2
        reports.append(json.loads((folder / "report").read_text(errors="replace")))
    assert [report["code"] for report in reports] == ["invalid_argument", "invalid_argument"]
    assert "of one/no plan" in reports[0]["message"]
    assert standbys.take(["more than there are"]) is None


def test_one_that_ended_by_itself_is_none(standbys):
    standbys.start(1)
    process = standbys._waiting[0].process
    process.kill()
    process.wait()
    assert standbys.take(["plan"]) is None


def test_one_that_does_not_tell_in_time_is_noticed(standbys, tmp_path):
    standbys.start(1)
    os.mkfifo(tmp_path / "plan")
    standby = standbys.take([str(tmp_path / "plan")])  # nobody writes it
    assert standby.run(0.1) is None
    assert standby.process.wait(60) == -9


def test_one_that_dies_gives_its_signal(standbys, tmp_path):
    standbys.start(1)
    os.mkfifo(tmp_path / "plan")
    standby = standbys.take([str(tmp_path / "plan")])
    standby.process.terminate()
    assert standby.run(60) == -15


def test_what_was_started_for_later_is_not_started_again(standbys):
    standbys.start_for_later()
    standbys.start_one_more()
    assert len(standbys._waiting) == 1
    standbys.start_one_more()
    assert len(standbys._waiting) == 2


def test_those_that_nobody_needed_end(standbys):
    standbys.start(2)
    processes = [standby.process for standby in standbys._waiting]
    standbys.__exit__(None, None, None)
    assert [process.returncode for process in processes] == [-9, -9]


def test_one_whose_stage_is_gone_ends(standbys):
    standbys.start(1)
    standby = standbys._waiting.pop()
    standby.input.close()
    assert standby.process.wait(60) == 0


def test_none_is_started_where_a_start_costs_little():
    with Standbys("hsa", 0) as opened:
        opened.start(2)
        assert opened.take(["plan"]) is None
