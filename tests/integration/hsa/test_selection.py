"""Which dispatches a capture takes, as the command line says."""

from __future__ import annotations

import re
import subprocess

import pytest

from kerncap_stages.errors import ExitCode


def test_a_grid_that_no_dispatch_has_is_told_from_a_kernel_that_never_ran(stages, program):
    words = ["--kernel", "target(", "--grid", "2,0,1", "--", program("many_dispatches"), 1, 2]
    done = stages.run("capture", *words).must(ExitCode.ANSWER_IS_NO)
    assert "its latest shape was 1,1,1" in done.err
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
        ("--kernel", "a", "--grid", "4", "--grid-blocks", "5", "--", "true"),
        ("--kernel", "a", "--grid-blocks", "4", "--grid-blocks", "5", "--", "true"),
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


def signals_left(shown: str) -> int:
    """How many ROCr says are left when it is shut down. Debug builds count them, which Debian's are."""
    return sum(map(int, re.findall(r"SharedSignalPool, (\d+) Signals leaked", shown)))


@pytest.mark.parametrize(
    ("name", "words", "made"),
    [
        ("device_enqueue", ("profile",), 1),
        ("device_enqueue", ("capture", "--kernel", "target"), 1),
        ("device_enqueue", ("capture", "--kernel", "target", "--count", 3), 3),
        ("short_queues", ("profile",), 1),
        ("short_queues", ("capture", "--kernel", "target", "--count", 20), 20),
        ("many_dispatches", ("profile",), 1),
        ("many_dispatches", ("capture", "--kernel", "target"), 1),
        ("many_dispatches", ("capture", "--kernel", "target", "--count", 3), 3),
    ],
)
def test_no_more_signals_are_left_than_without_us(stages, program, name, words, made):
    """Where the program shuts the runtime down, and where HIP does after the program's end."""
    arguments = {
        "device_enqueue": [program("enqueue_kernels")],
        "short_queues": [program("words_kernels"), 20],
        "many_dispatches": [1, 3],
    }
    command = [program(name), *arguments[name]]
    alone = subprocess.run(
        [*map(str, command)], env=stages.environment, capture_output=True, text=True, check=True
    )
    done = stages.run(*words, "--", *command).must()
    assert len(done.digests) == made
    assert signals_left(done.err) == signals_left(alone.stderr)


def test_two_spellings_of_one_grid_may_agree(stages, program):
    words = ("--kernel", "target(", "--grid", "1", "--grid-blocks", "1")
    done = stages.run("capture", *words, "--", program("many_dispatches"), 1, 1).must()
    assert len(done.digests) == 1


def test_extract_takes_a_kernel_by_its_rank_and_without_its_results(stages, program):
    (profile,) = stages.run("profile", "--", program("many_dispatches"), 3, 3).must().digests
    names = [kernel["name"] for kernel in stages.show(profile)["kernels"]]
    for rank, name in enumerate(names, 1):
        words = ("--rank", rank, "--no-post", "--no-validate", "--force", "--output", f"project{rank}")
        stages.run("extract", *words, profile).must()
        capture = stages.show("@capture")
        assert capture["kernel"]["demangled_name"] == name
        assert {region["post"] for region in capture["regions"]} == {None}
    assert len(names) >= 2
    stages.run("extract", "--rank", 99, profile).must(ExitCode.USAGE)
    done = stages.run("extract", "--rank", 1, "--kernel", "target", profile).must(ExitCode.USAGE)
    assert "--rank and --kernel exclude each other" in done.err
    stages.run("capture", "--rank", 1, "--kernel", "target", profile).must(ExitCode.USAGE)


def test_extract_takes_a_dispatch_of_the_shape_that_is_asked_for(stages, program):
    """The shape that took less time, in a run of its own and by a profile."""
    app = program("launch_shapes")
    (profile,) = stages.run("profile", "--", app).must().digests
    shapes = {
        each["name"].partition("(")[0]: each["launch_shapes"] for each in stages.show(profile)["kernels"]
    }
    assert {tuple(shape["grid_blocks"]) for shape in shapes["count"]} == {(1, 1, 1), (8, 2, 1)}
    for number, words in enumerate(
        ([profile], ["--no-profile", "--kernel", "count", "--", app], ["--", app])
    ):
        for shape, wanted in (
            (("--grid-blocks", "1"), [1, 1, 1]),
            (("--grid-blocks", "8,0", "--block", "64"), [8, 2, 1]),
        ):
            output = f"project-{number}-{wanted[0]}"
            options = (*shape, "--output", output, "--no-validate", "--json")
            done = stages.run("extract", *options, *words).must()
            capture = {step["name"]: step["digest"] for step in done.manifest["steps"]}["capture"]
            assert stages.show(capture)["launch"]["grid_blocks"] == wanted
    done = stages.run("extract", "--grid-blocks", "3", profile).must(ExitCode.ANSWER_IS_NO)
    assert "no matching kernel" in done.err
    assert "in this shape" in done.err
    stages.run("extract", "--grid-blocks", "x", profile).must(ExitCode.USAGE)
