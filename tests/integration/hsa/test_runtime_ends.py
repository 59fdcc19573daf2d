"""ROCr shuts down while our library is in the program: after HIP was loaded late, in a thread, twice."""

from __future__ import annotations

import pytest

HOW = ["normal", "close", "thread"]


@pytest.mark.parametrize("how", HOW)
def test_a_profiled_program_that_loads_the_runtime_late_ends_as_it_does_alone(stages, program, how):
    printed = stages.folder / "printed"
    words = [program("late_runtime"), program("words_kernels"), how]
    done = stages.run("profile", "--json", "--app-stdout", printed, "--", *words).must()
    profile = done.manifest
    assert (profile["program"]["exit_code"], profile["program"]["exit_signal"]) == (0, None)
    # Its last words are in its buffer until it ends.
    assert printed.read_text() == "late_runtime: word 2\n"
    calls = {kernel["name"]: kernel["calls"] for kernel in profile["kernels"]}
    assert calls["target"] == 2


@pytest.mark.parametrize("how", HOW)
def test_a_captured_program_that_loads_the_runtime_late_ends_as_it_does_alone(stages, program, how):
    words = (program("words_kernels"), how)
    captures, printed = stages.capture_and_listen(
        "target", program("late_runtime"), *words, options=("--count", 2)
    )
    assert printed == "late_runtime: word 2\n"
    assert len(captures) == 2


def test_a_runtime_that_is_shut_down_and_started_again_is_profiled_on(stages, program):
    words = [program("runtime_twice"), program("words_kernels")]
    profile = stages.run("profile", "--json", "--", *words).must().manifest
    assert profile["program"]["exit_code"] == 0
    assert (profile["processes"], [kernel["calls"] for kernel in profile["kernels"]]) == (1, [2])


def test_a_runtime_that_is_shut_down_and_started_again_is_captured_on(stages, program):
    """Dispatches are counted over both: the second is number 1."""
    captures, printed = stages.capture_and_listen(
        "target", program("runtime_twice"), program("words_kernels"), options=("--count", 2)
    )
    assert "wrong 0" in printed
    assert [capture["dispatch"]["index_of_kernel"] for capture in captures] == [0, 1]
    assert len({capture["dispatch"]["process_id"] for capture in captures}) == 1


def test_a_target_that_hangs_until_the_program_ends_completes_the_programs_signal(stages, program):
    printed = stages.folder / "printed"
    options = ["--kernel", "spin_until_set", "--wait", 1, "--app-stdout", printed, "--count", 2]
    done = stages.run("capture", *options, "--", program("late_completion"), program("words_kernels"))
    assert printed.read_text() == "late_completion: ended\n", done.err
