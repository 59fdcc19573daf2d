"""The frame: exit codes, messages, pipes that break, signals, hostile text."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from kerncap_stages import __version__, errors
from kerncap_stages.cli.store_option import add_store_option

STAGE = [sys.executable, str(Path(__file__).parents[1] / "programs" / "frame_stage.py")]


def run(*arguments, stdin=subprocess.DEVNULL, **options):
    return subprocess.run(
        [*STAGE, *arguments], capture_output=True, text=True, stdin=stdin, timeout=60, check=False, **options
    )


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("AnswerIsNo", 1),
        ("UsageError", 2),
        ("ArtifactError", 3),
        ("ArtifactNotFound", 3),
        ("DigestMismatch", 3),
        ("ManifestUnreadable", 3),
        ("DeviceError", 4),
        ("ProgramError", 5),
        ("Refused", 6),
    ],
)
def test_each_error_has_its_exit_code_and_says_what_to_do(name, code):
    done = run("--act", name)
    assert done.returncode == code == getattr(errors, name).exit_code
    assert done.stdout == ""
    assert done.stderr == "kc-test: error: capture 0123: it\n  went \\x1b[31mwrong\n  next: do this\n"


def test_system_error_is_not_an_answer():
    done = run("--act", "system")
    assert done.returncode == 4
    assert "/nowhere/file" in done.stderr
    assert "Traceback" not in done.stderr


def test_fault_of_ours_is_told_from_an_answer():
    done = run("--act", "bug")
    assert done.returncode == 70
    assert "ZeroDivisionError: one / none\\x1b[31m" in done.stderr
    assert "Traceback" in done.stderr
    assert "\x1b" not in done.stderr


@pytest.mark.parametrize("arguments", [["--nope"], ["--act"], ["--json=1"], ["--store"]])
def test_wrong_arguments_end_with_2_and_name_help(arguments):
    done = run(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("kc-test: error: ")
    assert "`kc-test --help`" in done.stderr


def test_escape_sequence_in_an_argument_does_not_reach_the_terminal():
    done = run("--\x1b]0;title\x07")
    assert done.returncode == 2
    assert "\x1b" not in done.stderr
    assert "\x07" not in done.stderr


def test_help_shows_example_and_exit_codes():
    done = run("--help")
    assert done.returncode == 0
    assert "Example:\n    frame_stage @capture\n" in done.stdout
    for code in errors.ExitCode:
        assert f"{int(code)} " in done.stdout[done.stdout.index("Exit codes") :]
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_help_imports_nothing_heavy():
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *STAGE[1:], "--help"], capture_output=True, text=True, check=True
    )
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert imported.isdisjoint({"rich", "pydantic", "numpy", "jinja2", "zstandard"})
    assert "typer" in imported


def test_no_garbage_is_looked_for_at_the_end():
    lines = (
        "import atexit, gc, runpy, sys",
        "atexit.register(lambda: print(gc.get_freeze_count() > 10_000))",
        "del sys.argv[0]",
        "runpy.run_path(sys.argv[0], run_name='__main__')",
    )
    words = [sys.executable, "-c", "\n".join(lines), *STAGE[1:], "a"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "True"


def test_objects_of_native_code_in_a_circle_end_without_a_word(tmp_path):
    lines = (
        "import gc",
        "from pathlib import Path",
        "from kerncap_stages.store import Store",
        f"circle = [Store.open(Path({str(tmp_path / 'store')!r}))]",
        "circle.append(circle)",
        "del circle",
        "gc.freeze()",
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", "\n".join(lines)], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""


def test_version():
    assert run("--version").stdout == f"kc-test (kerncap-stages) {__version__}\n"


def test_artifacts_come_from_arguments():
    done = run("a", "b")
    assert done.stdout.split() == ["a" * 64, "b" * 64]
    assert done.stderr == "got a\ngot b\n"


def test_artifacts_come_from_a_pipe_one_a_line():
    done = subprocess.run(STAGE, input="a\n\n  b \nc", capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["a" * 64, "b" * 64, "c" * 64]


def test_stage_starts_on_the_first_artifact_while_the_one_before_still_works():
    with subprocess.Popen(STAGE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as stage:
        stage.stdin.write("a\n")
        stage.stdin.flush()
        assert stage.stdout.readline() == "a" * 64 + "\n"  # before the pipe is closed
        stage.stdin.close()
        assert stage.wait(60) == 0


def test_failed_stage_before_is_reported():
    done = subprocess.run(STAGE, input="", capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "the stage before this one failed" in done.stderr


def test_no_artifact_at_all_is_wrong_usage():
    terminal, other_end = os.openpty()
    done = run(stdin=other_end)
    os.close(terminal)
    os.close(other_end)
    assert done.returncode == 2
    assert "no artifact given" in done.stderr


@pytest.mark.parametrize(
    ("piped", "message"),
    [
        ('{"kind":"capture"}\n', "holds JSON"),
        ("x" * 100_000, "not a list of artifacts"),
        ("\x1b[31m\n", "not a list of artifacts"),
        ("\x00\x01\n", "not a list of artifacts"),
    ],
)
def test_pipe_that_carries_something_else_is_refused(piped, message):
    done = subprocess.run(STAGE, input=piped, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert message in done.stderr


def test_pipe_of_undecodable_bytes_is_refused():
    environment = os.environ | {"PYTHONIOENCODING": "utf-8:strict"}
    done = subprocess.run(
        STAGE, input=b"\xff\xfe\x00\xb5\n", capture_output=True, check=False, env=environment
    )
    assert done.returncode == 2
    assert b"not a list of artifacts" in done.stderr


def test_reader_that_goes_ends_the_stage_and_the_digest_that_it_misses_is_told():
    with subprocess.Popen(
        [*STAGE, "--act", "digests"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as stage:
        stage.stdout.readline()
        stage.stdout.close()
        assert stage.wait(60) == -signal.SIGPIPE
        message, hint = stage.stderr.read().decode().splitlines()
        assert re.search(r"error: [0-9a-f]{64} was made, but the program that reads standard output", message)
        assert "`kc-show` with that digest" in hint


def test_reader_that_goes_before_the_help_is_no_answer():
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([*STAGE, "--help"], stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert done.returncode == -signal.SIGPIPE
    assert done.stderr == b""


def test_full_disk_behind_standard_output_is_an_error():
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([*STAGE, "a"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 4
    assert "No space left" in done.stderr
    assert "a" * 64 in done.stderr


def test_a_digest_that_nobody_could_be_told_is_an_error():
    done = subprocess.run(
        ["sh", "-c", '"$@" >&-', "sh", *STAGE, "a", "b"], stderr=subprocess.PIPE, text=True, check=False
    )
    assert done.returncode == 4
    assert f"{'a' * 64} {'b' * 64}" in done.stderr.partition("standard output is closed")[2]


def test_interrupt_ends_by_the_signal_so_that_a_shell_loop_stops():
    # A shell's background job, as a machine that runs the tests may be, ignores interrupts and hands that on.
    interruptible = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        check_interrupt()
    finally:
        signal.signal(signal.SIGINT, interruptible)


def test_how_a_child_ended_is_told_where_the_caller_ignores_its_children():
    # Python resets no signal that is ignored, so its own children inherit that.
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        stage = subprocess.Popen([*STAGE, "--act", "child"], stdout=subprocess.PIPE, text=True)
    finally:
        signal.signal(signal.SIGCHLD, before)
    told, _ = stage.communicate(timeout=60)
    assert told == f"{7:064x}\n"


def check_interrupt():
    for act in ("interrupt", "lost interrupt"):
        done = run("--act", act)
        assert done.returncode == -signal.SIGINT
        assert done.stderr == ""
    shell = subprocess.run(
        ["sh", "-c", '"$@"; echo $?', "sh", *STAGE, "--act", "interrupt"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert shell.stdout == "130\n"


@pytest.mark.parametrize(
    ("typed", "hint", "shown"),
    [
        (["--store", "my store"], "`kc-show 12ab` lists", "`kc-show --store 'my store' 12ab` lists"),
        (["--store=s", "x"], "kc-show @ | kc-locate -h", "kc-show --store s @ | kc-locate --store s -h"),
        (["--store", "s"], "`kc-store ls --kind capture`", "`kc-store ls --store s --kind capture`"),
        (["--store", "s"], "kc-capture's copies; kc-capture: one", "kc-capture's copies; kc-capture: one"),
        (["--store", "s"], "`kc-show 12ab`, or pass --store DIR", "`kc-show 12ab`, or pass --store DIR"),
        (["--fresh"], "`kc-show 12ab`", "`kc-show 12ab`"),
    ],
)  # fmt: skip
def test_a_next_step_names_the_store_that_was_typed(typed, hint, shown):
    assert add_store_option(hint, ["kc-locate", *typed]) == shown


def test_closed_standard_error_does_not_hide_the_exit_code():
    done = subprocess.run(
        ["sh", "-c", '"$@" 2>&-', "sh", *STAGE, "--act", "Refused"], stdout=subprocess.PIPE, check=False
    )
    assert done.returncode == 6


def test_line_is_one_write_beside_a_program_that_writes_to_the_same_place():
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)  # a message for each write
    with ours, theirs:
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        subprocess.run([*STAGE, "--act", "Refused"], stderr=theirs, env=environment, check=False)
        theirs.shutdown(socket.SHUT_WR)
        written = list(iter(lambda: ours.recv(4096), b""))
    assert [text.split(b":")[0] for text in written] == [b"kc-test", b"  next"]
    assert all(text.endswith(b"\n") for text in written), written
