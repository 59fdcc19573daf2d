"""Programs that are more than one process, and programs that end badly."""

from __future__ import annotations

import re
import subprocess

import pytest

from kerncap_stages.errors import ExitCode
from kerncap_stages.store import Store
from kerncap_stages.store.check import check_store


def written_values(stages, capture) -> set[int]:
    (data,) = [region for region in capture["regions"] if region["written_size_bytes"]]
    return {int.from_bytes(stages.memory(data["post"])[at : at + 4], "little") for at in range(0, 256, 4)}


def test_each_forked_worker_has_captures_of_its_own(stages, program):
    captures, printed = stages.capture_and_listen("target(", program("fork_workers"))
    assert "wrong 0" in printed
    assert len({capture["dispatch"]["process_id"] for capture in captures}) == 3
    assert len({capture["dispatch"]["run_id"] for capture in captures}) == 1
    values = [written_values(stages, capture) for capture in captures]
    assert sorted(values, key=min) == [{7}, {100}, {101}]


def test_a_program_that_a_shell_script_starts(stages, program):
    script = stages.folder / "start"
    script.write_text('#!/bin/sh\n"$1" normal\necho "then exit code $?"\nexit 0\n')
    script.chmod(0o755)
    (capture,), printed = stages.capture_and_listen("target(", script, program("endings"))
    assert "then exit code 0" in printed
    assert capture["program"]["command"][0] == str(script)
    assert (
        stages.replay(Store.open(stages.store).resolve("@capture")).must().manifest["matches_golden"] is True
    )


ENDINGS = [
    ("abort", "SIGABRT"),
    ("_exit", "exit code 7"),
    ("kill", "SIGKILL"),
    ("crash", "SIGSEGV"),
    ("raise", "SIGSEGV"),
    ("handled", "exit code 9"),
    ("ended", "SIGTERM"),
    ("alarm", "SIGALRM"),
    ("quick", None),
    ("normal", None),
]
# Ends that leave a library no word: the program has to be kept waiting.
SUDDEN = ("_exit", "kill", "handled")


@pytest.mark.parametrize(("how", "says"), ENDINGS)
def test_a_capture_is_whole_when_the_program_ends_right_after_the_target(stages, program, how, says):
    done = stages.run("capture", "--kernel", "target(", "--", program("endings"), how).must()
    (digest,) = done.digests
    if says is not None:
        assert says in done.err
        assert "the capture; the capture is complete" in done.err
    assert ("the program ended" in done.err) == (says is not None), done.err
    capture = stages.show(digest)
    (data,) = [region for region in capture["regions"] if region["written_size_bytes"]]
    words = [memory[at] for memory in [stages.memory(data["post"])] for at in range(0, 256, 4)]
    assert words == [3 * i for i in range(64)]
    assert check_store(Store.open(stages.store)).ok
    assert stages.replay(digest).must().manifest["matches_golden"] is True


@pytest.mark.parametrize(("how", "says"), ENDINGS)
def test_a_large_capture_is_whole_when_the_program_ends_right_after_the_target(stages, program, how, says):
    hold = ("--hold",) if how in SUDDEN else ()
    done = stages.run("capture", "--kernel", "target(", *hold, "--", program("endings"), how, "large").must()
    if says is not None:
        assert f"{says} after the capture; the capture is complete" in done.err
    assert ("the program ended" in done.err) == (says is not None), done.err
    capture = stages.show(done.digests[0])
    assert sum(region["size_bytes"] for region in capture["regions"]) >= 80 << 20
    assert stages.replay(done.digests[0]).must().manifest["matches_golden"] is True


@pytest.mark.parametrize(("how", "says"), [each for each in ENDINGS if each[1]])
def test_a_signal_before_all_requested_captures_is_the_programs_failure(stages, program, how, says):
    done = stages.run("capture", "--kernel", "target(", "--count", 2, "--", program("endings"), how)
    done.must(ExitCode.PROGRAM if says.startswith("SIG") else ExitCode.DONE)
    assert len(done.digests) == 1
    assert f"{says} before all requested dispatches were captured; what was captured is complete" in done.err
    assert "captured 1 of the 2 requested dispatches" in done.err


@pytest.mark.parametrize(("how", "says"), [each for each in ENDINGS if each[1]])
def test_an_end_before_the_target_is_the_programs_failure(stages, program, how, says):
    done = stages.run("capture", "--kernel", "target(", "--", program("endings"), how, "early")
    done.must(ExitCode.PROGRAM)
    assert f"{says} before the kernel was captured" in done.err
    assert done.digests == []
    assert Store.open(stages.store).list_artifacts() == []


@pytest.mark.parametrize(("how", "says"), ENDINGS)
def test_a_profiled_program_ends_as_it_does_alone(stages, program, how, says):
    command = [program("endings"), how]
    alone = subprocess.run(command, env=stages.environment, capture_output=True, check=False).returncode
    done = stages.run("profile", "--json", "--", *command)
    if not done.out:  # it ended before the one time stamp was read
        done.must(ExitCode.PROGRAM)
        assert re.search(rf"{says} before (the times of its dispatches|any kernel times) ", done.err)
        return
    done.must(ExitCode.PROGRAM if alone < 0 else ExitCode.DONE)
    assert ("the program ended" in done.err, (says or "") in done.err) == (says is not None, True)
    profiled = done.manifest["program"]
    assert (profiled["exit_code"], -(profiled["exit_signal"] or 0)) == (
        (alone, 0) if alone >= 0 else (None, alone)
    )


def test_a_kernel_that_is_never_launched_is_an_answer_with_the_names_that_come_close(stages, program):
    done = stages.run("capture", "--kernel", "setup_date", "--", program("endings"), "normal", "early")
    done.must(ExitCode.ANSWER_IS_NO)
    assert "setup_data" in done.err
    done = stages.run("capture", "--kernel", "target(", "--", program("endings"), "normal", "early")
    done.must(ExitCode.ANSWER_IS_NO)
    assert "never dispatched" in done.err


def test_a_used_store_never_gives_an_old_capture_as_a_result(stages, program):
    """The second run finds nothing: what the first one left must not be taken for its result."""
    stages.capture("target(", program("endings"), "normal")
    done = stages.run("capture", "--kernel", "target(", "--", program("endings"), "normal", "early")
    done.must(ExitCode.ANSWER_IS_NO)
    assert done.digests == []
