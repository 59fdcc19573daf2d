"""Which dispatches a capture takes, as the command line says."""

from __future__ import annotations

import re
import subprocess
import time

import pytest

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
    assert "dispatched kernels that match 'target(' 8 times" in done.err
    done = stages.run("capture", *kernel, "--count", 9, "--", program("many_dispatches"), 1, 2).must()
    assert len(done.digests) == 2
    assert "captured 2 of the 9 requested dispatches" in done.err


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
        (("--kernel", "target(", "--grid", "1"), True),  # the older spelling
        (("--kernel", "target(", "--grid", "2"), False),
    ],
)
def test_ways_to_name_a_kernel(stages, program, words, found):
    done = stages.run("capture", *words, "--", program("many_dispatches"), 1, 2)
    done.must(ExitCode.DONE if found else ExitCode.ANSWER_IS_NO)
    names = [stages.show(digest)["kernel"]["mangled_name"] for digest in done.digests]
    assert names == (["_Z6targetPj"] if found else [])


def shape_of(stages, digest):
    capture = stages.show(digest)
    launch, dispatch = capture["launch"], capture["dispatch"]
    return launch["grid_blocks"][0], launch["block_work_items"][0], dispatch["index_of_kernel"]


def test_one_configuration_of_a_tuned_kernel(stages, program):
    """The program goes on with the best: the first dispatch is a trial."""
    tuned = program("configurations")
    (profile,) = stages.run("profile", "--", tuned).must().digests
    kernel = next(each for each in stages.show(profile)["kernels"] if each["name"].startswith("tuned"))
    last = kernel["launch_shapes"][kernel["last_shape"]]
    assert (last["grid_blocks"], last["block_work_items"]) == ([4, 1, 1], [128, 1, 1])
    # Whichever this machine took longest for. Of kernels so short the software GPU's times say nothing: there
    # it may be any, and test_capture_request.py holds the rule.
    times: dict[tuple[int, int], int] = {}
    for each in kernel["launch_shapes"]:
        shape = (each["grid_blocks"][0], each["block_work_items"][0])
        times[shape] = times.get(shape, 0) + each["total_ns"]
    grid, block = max(times, key=lambda shape: times[shape])
    main = stages.run("capture", profile).must()
    if stages.show(profile)["time_source"] == "software_gpu":
        said = re.search(r"the first dispatch of (\d+),1,1 work-groups of (\d+),1,1 is captured", main.err)
        assert said is not None, main.err
        grid, block = map(int, said.groups())
        assert (grid, block) in times
    assert f"3 shapes; the first dispatch of {grid},1,1 work-groups of {block},1,1 is captured" in main.err
    assert shape_of(stages, main.digests[0]) == (grid, block, 0)
    trial = stages.run("capture", profile, "--dispatch", 0).must()
    assert "shapes" not in trial.err
    assert shape_of(stages, trial.digests[0]) == (8, 64, 0)
    chosen = stages.run("capture", profile, "--grid-blocks", "4,1,1", "--block", "128,1,1").must()
    assert "shapes" not in chosen.err
    (digest,) = chosen.digests
    assert shape_of(stages, digest) == (4, 128, 0)
    by_block = stages.run("capture", profile, "--block", 128, "--dispatch", 3).must()
    (digest,) = by_block.digests
    assert shape_of(stages, digest) == (4, 128, 3)


def test_cases_are_one_dispatch_of_each_shape(stages, program):
    tuned = program("configurations")
    done = stages.run("capture", "--kernel", "tuned", "--cases", 2, "--", tuned).must()
    assert [shape_of(stages, digest) for digest in done.digests] == [(8, 64, 0), (4, 128, 1)]
    # Those of a profile are the ones in which the kernel spent most time.
    (profile,) = stages.run("profile", "--", tuned).must().digests
    done = stages.run("capture", profile, "--cases", 9).must()
    assert "3 of 3 launch shapes are captured, with 100% of the kernel's time" in done.err
    assert sorted(shape_of(stages, digest)[:2] for digest in done.digests) == [(4, 64), (4, 128), (8, 64)]
    cases = [case for digest in done.digests for case in stages.show(digest)["selection"]["cases"]]
    calls = {(each["grid_blocks"][0], each["block_work_items"][0]): each["calls"] for each in cases}
    assert calls == {(8, 64): 1, (4, 64): 1, (4, 128): 5}
    refused = stages.run("capture", profile, "--cases", 2, "--count", 2)
    assert "--cases excludes --dispatch, --count and --every" in refused.must(ExitCode.USAGE).err


def test_a_name_that_the_profile_lacks_is_told_before_the_program_runs(stages, program):
    (profile,) = stages.run("profile", "--", program("configurations")).must().digests
    done = stages.run("capture", profile, "--kernel", "tunde").must(ExitCode.ANSWER_IS_NO)
    told = f"kc-capture: warning: no kernel of profile {profile[:12]} matches 'tunde'; similar names: tuned"
    assert done.err.startswith(told)


def test_a_shape_that_never_was_is_told_with_one_that_was(stages, program):
    done = stages.run("capture", "--kernel", "tuned", "--block", 32, "--", program("configurations"))
    done.must(ExitCode.ANSWER_IS_NO)
    assert "its latest shape was 4,1,1 work-groups of 128,1,1" in done.err
    assert "--grid-blocks 4,1,1 --block 128,1,1" in done.err


def test_several_kernels_in_one_run(stages, program):
    words = ["--kernel", "target(", "--kernel", "other(", "--count", 2]
    done = stages.run("capture", *words, "--", program("many_dispatches"), 3, 3).must()
    found = [
        (capture["kernel"]["mangled_name"], capture["dispatch"]["index_of_kernel"])
        for capture in map(stages.show, done.digests)
    ]
    assert sorted(found) == [("_Z5otherPj", 0), ("_Z5otherPj", 1), ("_Z6targetPj", 0), ("_Z6targetPj", 1)]


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
