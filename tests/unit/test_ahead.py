"""Replayers that are started one ahead: each replays once, and how it ends counts."""

from __future__ import annotations

import sys

import pytest

from kerncap_stages.replay import standby as standby_module
from kerncap_stages.replay.ahead import ReplayersAhead

ENVIRONMENT = {"SAME": "1", "OTHER": "1"}
# Speaks as `--standby` does: native/replay/standby.hpp. The first of its words says how it ends.
FAKE = f"""#!{sys.executable}
import os, sys, time
said = b""
while piece := os.read(0, 4096):
    said += piece
words = said.split(b"\\0")[:-1]
open(words[1], "wb").write(b" ".join(words[2:]))
os.write(0, b"\\0")  # told before it has ended
if words[0] == b"hang":
    time.sleep(600)
if words[0] == b"die":
    os.abort()
sys.exit(3)
"""


@pytest.fixture
def replayers(tmp_path, monkeypatch):
    path = tmp_path / "kc-replay-fake"
    path.write_text(FAKE)
    path.chmod(0o755)
    monkeypatch.setattr(standby_module, "find_native_file", lambda _: path)
    with ReplayersAhead(0, ENVIRONMENT) as opened:
        yield opened


@pytest.fixture
def run(replayers, tmp_path):
    """Replays, and returns the exit code and the words that followed."""

    def replay(how, limit_s=60, **variables):
        said = tmp_path / "said"
        code = replayers.take([how, str(said)], ENVIRONMENT | variables).run(limit_s)
        return code, said.read_text() if said.exists() else None

    return replay


def test_the_next_one_is_started_when_one_has_ended(replayers, run):
    replayers.start(2)
    first = replayers._waiting[0].process
    assert len(replayers._waiting) == 1
    assert run("end") == (3, "")
    assert first.returncode == 3
    (second,) = replayers._waiting
    assert second.process is not first
    assert second.process.poll() is None


def test_how_the_process_ends_counts_and_not_what_it_told_before(replayers, run):
    replayers.start(1)
    assert run("die")[0] == -6
    assert run("hang", limit_s=1)[0] is None
    assert run("end") == (3, "")


def test_a_replay_gets_what_the_process_lacks_of_its_environment(replayers, run):
    replayers.start(1)
    assert run("end", OTHER="2", NEW="a b") == (3, "--set OTHER=2 --set NEW=a b")
    assert replayers.take(["end"], {"OTHER": "1"}) is None


def test_two_at_once_share_nothing(replayers, tmp_path):
    replayers.start(1)
    first = replayers.take(["end", str(tmp_path / "said")], ENVIRONMENT)
    assert replayers.take(["end"], ENVIRONMENT) is None
    assert first.run(60) == 3


def test_the_one_that_nobody_needed_ends(replayers):
    replayers.start(1)
    (waiting,) = replayers._waiting
    replayers.__exit__(None, None, None)
    assert waiting.process.returncode == -9
