"""Which dispatches a capture takes, as the command line says."""

from __future__ import annotations

import pytest

from kerncap_stages.errors import ExitCode


def test_a_grid_that_no_dispatch_has_is_told_from_a_kernel_that_never_ran(stages, program):
    words = ["--kernel", "target(", "--grid", "2,0,1", "--", program("many_dispatches"), 1, 2]
    done = stages.run("capture", *words).must(ExitCode.ANSWER_IS_NO)
    assert "one of its own is 1,1,1" in done.err
    assert "never dispatched" not in done.err


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


@pytest.mark.parametrize(
    ("words", "made"),
    [
        (("profile",), 1),
        (("capture", "--kernel", "target"), 1),
        (("capture", "--kernel", "target", "--count", 3), 3),
    ],
)
def test_no_signal_is_left_when_the_runtime_is_shut_down(stages, program, rocm, words, made):
    """Debug builds of ROCr count them. 7.2 leaves some without us, too."""
    done = stages.run(*words, "--", program("device_enqueue"), program("enqueue_kernels")).must()
    assert len(done.digests) == made
    assert rocm != "6.4" or "leaked" not in done.err
