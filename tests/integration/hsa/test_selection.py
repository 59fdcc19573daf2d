"""Which dispatches a capture takes, as the command line says."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import time

import pytest
from stages import executable

from kerncap_stages.errors import ExitCode


def numbers_of(stages, program, *options):
    done = stages.run("capture", *options, "--", program("many_dispatches"), 5, 8).must()
    return [stages.show(digest)["dispatch"]["index_of_kernel"] for digest in done.digests]


def test_dispatch_count_and_every(stages, program):
    kernel = ("--kernel", "target(")
    assert numbers_of(stages, program, *kernel) == [0]
    assert numbers_of(stages, program, *kernel, "--dispatch", 3) == [3]
    assert numbers_of(stages, program, *kernel, "--dispatch", 2, "--count", 2, "--every", 3) == [2, 5]
    done = stages.run("capture", *kernel, "--dispatch", 8, "--", program("many_dispatches"), 5, 8)
    done.must(ExitCode.ANSWER_IS_NO)
    assert "dispatched it 8 times" in done.err
    done = stages.run("capture", *kernel, "--count", 9, "--", program("many_dispatches"), 1, 2).must()
    assert len(done.digests) == 2
    assert "of 9 dispatches that were asked for, 2 were captured" in done.err


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("--kernel", "target(unsigned int*)", "--exact"), True),
        (("--kernel", "target", "--exact"), True),
        (("--kernel", "targe", "--exact"), False),
        (("--kernel", "targe"), True),
        (("--kernel", "^t.rget\\(", "--regex"), True),
        (("--kernel", "^arget", "--regex"), False),
        (("--kernel", "_Z6targetPj", "--mangled"), True),
        (("--kernel", "_Z6targetPk", "--mangled"), False),
        (("--kernel", "target(", "--grid", "1"), True),
        (("--kernel", "target(", "--grid", "2"), False),
    ],
)
def test_ways_to_name_a_kernel(stages, program, words, found):
    done = stages.run("capture", *words, "--", program("many_dispatches"), 1, 2)
    done.must(ExitCode.DONE if found else ExitCode.ANSWER_IS_NO)
    names = [stages.show(digest)["kernel"]["mangled_name"] for digest in done.digests]
    assert names == (["_Z6targetPj"] if found else [])


def test_several_kernels_in_one_run(stages, program):
    words = ["--kernel", "target(", "--kernel", "other(", "--count", 2]
    done = stages.run("capture", *words, "--", program("many_dispatches"), 3, 3).must()
    found = [
        (capture["kernel"]["mangled_name"], capture["dispatch"]["index_of_kernel"])
        for capture in map(stages.show, done.digests)
    ]
    assert sorted(found) == [("_Z5otherPj", 0), ("_Z5otherPj", 1), ("_Z6targetPj", 0), ("_Z6targetPj", 1)]


@pytest.mark.parametrize(
    "words",
    [
        ("--kernel", "(", "--regex", "--", "true"),
        ("--kernel", "a", "--grid", "x", "--", "true"),
        ("--kernel", "a", "--grid", "99999999999", "--", "true"),
        ("--kernel", "a", "--wait", "0", "--", "true"),
        ("--kernel", "a", "--wait", "nan", "--", "true"),
        ("--kernel", "a", "--timeout", "inf", "--", "true"),
        ("--kernel", "a", "--count", "99999999999999999999", "--", "true"),
        ("--kernel", "a", "--rank", "2", "--", "true"),
        ("--kernel", "", "--", "true"),
        (*(word for _ in range(65) for word in ("--kernel", "a")), "--", "true"),
        ("--kernel", "a", "--exact", "--regex", "--", "true"),
        ("--", "true"),
        ("--kernel", "a", "--"),
    ],
)
def test_what_makes_no_sense_is_refused_before_the_program_runs(stages, words):
    stages.run("capture", *words).must(ExitCode.USAGE)


@pytest.mark.parametrize(
    ("where", "says"),
    [("stack", "memory that was never seen to be allocated"), ("nowhere", "only 0 of the")],
)
def test_arguments_that_cannot_be_had_are_refused(stages, program, where, says):
    printed = stages.folder / "printed"
    words = ["--kernel", "unread", "--app-stdout", printed, "--", program("unseen_arguments")]
    done = stages.run("capture", *words, program("words_kernels"), where)
    done.must(ExitCode.REFUSED)
    assert says in done.err
    assert done.digests == []
    assert "wrong 0" in printed.read_text()


def test_the_program_is_ended_once_all_is_captured(stages, program):
    """It would wait for ever: only the stage ends it, and that counts as success."""
    script = stages.folder / "and-wait"
    script.write_text('#!/bin/sh\n"$@"\nexec cat "$KERNCAP_TEST_PIPE"\n')
    script.chmod(0o755)
    pipe = stages.folder / "pipe"
    subprocess.run(["mkfifo", pipe], check=True)
    stages.variables["KERNCAP_TEST_PIPE"] = str(pipe)
    begun = time.monotonic()
    words = ["--kernel", "target(", "--stop-after", "--", script, program("many_dispatches"), 1, 1]
    (digest,) = stages.run("capture", *words).must().digests
    assert time.monotonic() - begun < 60
    assert stages.show(digest)["kernel"]["mangled_name"] == "_Z6targetPj"


def test_a_capture_says_what_it_took(stages, program):
    done = stages.run("capture", "--kernel", "target(", "--", program("many_dispatches"), 1, 1).must()
    assert re.search(r"target\(unsigned int\*\): \d+ regions, .* written; the program was held for", done.err)


def test_signals_are_given_back_after_each_capture(stages, program):
    """Debug builds of ROCr count what is left at the end: our copy queue's own, after 1 capture or 6."""
    left = []
    for count in (1, 6):
        words = ["--kernel", "target(", "--count", count, "--", program("many_dispatches"), 1, 6]
        done = stages.run("capture", *words).must()
        assert len(done.digests) == count
        left += re.findall(r"(\d+) Signals leaked", done.err) or ["0"]
    assert left[0] == left[1]
    assert int(left[0]) <= 4


def test_the_bound_on_memory_of_ours_is_kept_and_reported(stages, program):
    """More memory in the snapshot than the bound allows to be resident at any time."""
    bound_mib = 256
    words = ["--kernel", "target(", "--max-memory", bound_mib, "--", program("large"), 400]
    (digest,) = stages.run("capture", *words).must().digests
    cost = stages.show(digest)["cost"]
    assert cost["copied_size_bytes"] > 400 << 20
    assert 10 << 20 < cost["extra_resident_bytes"] < bound_mib << 20


def test_progress_is_shown_on_a_terminal(stages, program):
    outer, inner = pty.openpty()
    process = subprocess.Popen(
        [*executable("capture"), "--kernel", "target(", "--", program("large"), "64"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=inner,
        env={**stages.environment, "TERM": "xterm", "COLUMNS": "100"},
        cwd=stages.folder,
    )
    os.close(inner)
    shown = b""
    while True:
        try:
            part = os.read(outer, 65536)
        except OSError:
            break
        if not part:
            break
        shown += part
    assert process.wait() == 0
    os.close(outer)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode(errors="replace"))
    assert re.search(r"[\d.]+ [MG]B/s", text), text
