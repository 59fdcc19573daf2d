"""Replayers that are kept: who gets the process, when it ends, and when its verdict is doubtful."""

from __future__ import annotations

import sys
import threading
from contextlib import suppress

import pytest

from kerncap_stages.replay import standby as standby_module
from kerncap_stages.replay.kept import KeptReplayers, VerdictReplayers, leaves_work

# Speaks as `--keep` does: native/replay/standby.hpp. What it does with words is the first of them.
FAKE = f"""#!{sys.executable}
import os, sys, time
def read(count):
    data = b""
    while len(data) < count:
        piece = os.read(0, count - len(data))
        if not piece:
            sys.exit(0)
        data += piece
    return data
with open(__file__ + ".started", "a") as log:
    log.write(sys.argv[1] + os.environ.get("MARK", "") + "\\n")
while True:
    words = read(int.from_bytes(read(4), sys.byteorder)).split(b"\\0")[:-1]
    what = words[0].decode()
    if what == "hang":
        time.sleep(600)
    if what == "die":
        os.abort()
    os.write(0, b"\\4" if what == "fault" else bytes([len(words)]))
    if what in ("fault", "leak"):
        sys.exit(4)
    os.write(0, b"\\1")
"""


class Fake:
    """The fake replayer, and what was started of it."""

    def __init__(self, path):
        self.path = path
        path.write_text(FAKE)
        path.chmod(0o755)

    @property
    def started(self):
        log = self.path.with_name(self.path.name + ".started")
        return log.read_text().split() if log.exists() else []


@pytest.fixture
def fake(tmp_path, monkeypatch):
    made = Fake(tmp_path / "kc-replay-fake")
    monkeypatch.setattr(standby_module, "find_native_file", lambda _: made.path)
    return made


@pytest.fixture
def replayers(fake):  # noqa: ARG001 - it is started
    with KeptReplayers("cuda", 3) as opened:
        yield opened


def run(replayers, *words, timeout_s=60):
    replayers.start(1)
    return replayers.take(words).run(timeout_s)


def begin_and_run(replayers, *words, **how):
    replayers.begin_variant(b"code")
    return run(replayers, *words, **how)


def test_one_process_serves_one_variant_after_the_other(replayers, fake):
    assert [begin_and_run(replayers, *["ok"] * count) for count in (1, 3, 2)] == [1, 3, 2]
    assert fake.started == ["--keep"]


def test_only_a_process_that_ran_another_variant_is_doubtful(replayers):
    begin_and_run(replayers, "ok")
    assert run(replayers, "ok", "again") == 2
    assert not replayers.is_doubtful
    begin_and_run(replayers, "ok")
    assert replayers.is_doubtful
    replayers.end_process()
    begin_and_run(replayers, "ok")
    assert not replayers.is_doubtful


@pytest.mark.parametrize(("word", "code"), [("fault", 4), ("leak", 1), ("die", -6), ("hang", None)])
def test_whatever_ends_the_process_the_next_variant_has_another(replayers, fake, word, code):
    begin_and_run(replayers, "ok")
    assert begin_and_run(replayers, word, timeout_s=1 if word == "hang" else 60) == code
    assert begin_and_run(replayers, "ok", "and", "on") == 3
    assert not replayers.is_doubtful
    assert len(fake.started) == 2


def test_two_replays_at_once_do_not_share_it(replayers):
    replayers.begin_variant(b"code")
    replayers.start(1)
    first = replayers.take(["ok"])
    replayers.start(1)  # does not wait for one that is at work
    assert replayers.take(["ok"]) is None
    assert first.run(60) == 1
    assert replayers.take(["ok"]).run(60) == 1


def test_a_replay_in_another_thread_is_never_mixed_up(replayers, fake):
    replayers.begin_variant(b"code")
    answers = []

    def work():
        for _ in range(50):
            lease = replayers.take(["ok", "ok"])
            if lease is not None:
                answers.append(lease.run(60))

    replayers.start(1)
    threads = [threading.Thread(target=work) for _ in range(4)]
    for each in threads:
        each.start()
    for _ in range(50):
        replayers.start(1)
    for each in threads:
        each.join()
    assert set(answers) == {2}
    assert fake.started == ["--keep"]


def test_some_replays_have_processes_of_their_own(replayers):
    assert replayers.fits(timed=True, has_variant=True) is False
    for how in ({"alone": True}, {}):
        replayers.begin_variant(b"\0vprintf\0" if not how else b"code", **how)
        assert replayers.fits(timed=False, has_variant=False)
        replayers.start(2)
        assert len(replayers._waiting) == 2
        replayers.take(["words"])
        replayers.take(["words"])
        assert not replayers.is_doubtful
    replayers.begin_variant(b"code")
    assert not replayers.fits(timed=False, has_variant=False)
    assert replayers.fits(timed=False, has_variant=True)


def test_those_that_are_timed_have_the_clock(fake):
    with KeptReplayers("cuda", 3, "GPU-1", timed=True, variables={"MARK": "clock"}) as replayers:
        assert begin_and_run(replayers, "ok") == 1
        assert replayers.fits(timed=True, has_variant=True)
        replayers.begin_variant(b"code", alone=True)
        assert not replayers.fits(timed=True, has_variant=True)
    assert fake.started == ["--keep-timedclock"]


def test_back_ends_that_start_fast_keep_none(fake):
    with KeptReplayers("hsa", 0) as replayers:
        replayers.begin_variant(b"code")
        replayers.start(1)
        assert replayers.fits(timed=False, has_variant=True)
        assert replayers.take(["ok"]) is None
    assert fake.started == []


def test_the_end_ends_it(fake):  # noqa: ARG001 - it is started
    with KeptReplayers("cuda", 0) as replayers:
        begin_and_run(replayers, "ok")
        process = replayers._process.standby.process
    assert process.returncode is not None


@pytest.fixture
def of_verdict(fake):  # noqa: ARG001 - it is started
    with VerdictReplayers("cuda", 3) as opened:
        for has_variant in (True, False):
            opened.keep(has_variant=has_variant)
        yield opened


def replay(replayers, *, has_variant):
    lease = replayers.take(["ok"], has_variant=has_variant)
    assert lease.run(60) == 1
    return lease.process.pid


def test_in_a_verdict_variant_and_captured_kernel_have_a_process_each(of_verdict, fake):
    pids = [replay(of_verdict, has_variant=each) for each in (True, False, True, False, False)]
    assert pids[0] == pids[2] != pids[1] == pids[3] == pids[4]
    assert fake.started == ["--keep"] * 2


def test_in_a_verdict_code_that_leaves_work_shares_no_process(of_verdict):
    of_verdict.tell_code(lambda: b"\0vprintf\0", has_variant=True)
    of_verdict.tell_code(lambda: b"code", has_variant=False)
    assert len({replay(of_verdict, has_variant=True) for _ in range(3)}) == 3
    assert len({replay(of_verdict, has_variant=False) for _ in range(3)}) == 1


def test_in_a_verdict_processes_end_with_each_replay_if_none_is_to_be_shared(of_verdict):
    of_verdict.share_none(has_variant=False)
    assert len({replay(of_verdict, has_variant=False) for _ in range(3)}) == 3
    assert len({replay(of_verdict, has_variant=True) for _ in range(3)}) == 1


def test_in_a_verdict_a_replay_beside_another_takes_one_that_waits(of_verdict):
    first = of_verdict.take(["ok"])
    assert of_verdict.take(["ok"]) is None
    of_verdict.start(1)
    beside = of_verdict.take(["ok"])
    assert beside.process.args[1] == "--standby"
    assert first.run(60) == 1


def test_in_a_verdict_another_process_follows_one_that_ended(of_verdict):
    lease = of_verdict.take(["fault"], has_variant=True)
    assert lease.run(60) == 4
    assert replay(of_verdict, has_variant=True) != lease.process.pid


def test_a_verdict_of_one_replay_keeps_no_process(fake):
    with VerdictReplayers("cuda", 0) as replayers:
        assert replayers.take(["ok"], has_variant=True) is None
        replayers.start(1)
        assert replayers.take(["ok"], has_variant=True).process.args[1] == "--standby"
    assert "--keep" not in fake.started


@pytest.mark.parametrize("fails", [False, True])
def test_the_end_of_a_verdict_ends_its_processes(fake, fails):  # noqa: ARG001 - it is started
    processes = []
    with suppress(ValueError), VerdictReplayers("cuda", 0) as replayers:
        for has_variant in (True, False):
            replayers.keep(has_variant=has_variant)
            processes.append(replayers.take(["ok"], has_variant=has_variant).process)
        replayers.start(1)
        processes += [each.process for each in replayers._waiting]
        if fails:
            raise ValueError
        replayers.dismiss()
    assert len(processes) == 3
    assert all(process.poll() is not None for process in processes)


def test_a_verdict_on_a_back_end_that_starts_fast_keeps_none(fake):
    with VerdictReplayers("hsa", 0) as replayers:
        replayers.keep(has_variant=True)
        replayers.tell_code(lambda: pytest.fail("nobody wants to know"), has_variant=True)
        assert replayers.take(["ok"], has_variant=True) is None
    assert fake.started == []


@pytest.mark.parametrize(
    ("code", "leaves"),
    [
        (b"\x7fELF\0malloc\0", True),
        (b"\x7fELF\0vprintf\0", True),
        (b".extern .func  (.param .b32 func_retval0) __assertfail\n(", True),
        (b"call.uni (retval0), cudaLaunchDeviceV2, (param0);", True),
        (b"\0__cuda_syscall_cp_async_bulk\0", True),
        (b"\0_Z10vector_addPKfPfi\0.nv.info\0", False),
        (b"\0_Z9mallocatePf\0_freed\0", False),
    ],
)
def test_what_leaves_work_is_told_by_the_functions_that_it_calls(code, leaves):
    assert leaves_work(code) is leaves
