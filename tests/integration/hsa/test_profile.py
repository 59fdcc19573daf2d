"""kc-profile: every dispatch counted and timed, ranked, and shown."""

from __future__ import annotations

import json
import re

import pytest

from kerncap_stages.errors import ExitCode


def profile_of(stages, *words, options=()):
    return stages.run("profile", *options, "--json", "--", *words).must()


def test_the_table_shows_every_column_and_a_bar(stages, program):
    written = stages.folder / "profile.json"
    done = stages.run(
        "profile", "--output", written, "--", program("many_dispatches"), 200, 1, COLUMNS="160"
    ).must()
    heads = next(line for line in done.err.splitlines() if "rank" in line)
    wanted = "rank share total calls mean min max std dev launch kernel"
    assert re.findall(r"\w+", heads) == wanted.split()
    other = next(line for line in done.err.splitlines() if "other(unsigned int*)" in line)
    assert "200" in other
    assert "1 of 1" in other
    first = next(line for line in done.err.splitlines() if re.match(" +1 ", line))
    assert "█" in first
    (digest,) = done.digests
    assert json.loads(written.read_text()) == stages.show(digest)


@pytest.mark.parametrize("how", ["abort", "crash", "_exit", "kill", "ended", "handled"])
def test_kernels_that_the_program_knows_to_have_ended_are_timed_however_it_ends(stages, program, how):
    done = stages.run("profile", "--json", "--", program("endings"), how)
    calls = {kernel["name"]: kernel["calls"] for kernel in done.manifest["kernels"]}
    assert (calls["setup_data(int*)"], calls["target(int*)"]) == (1, 1)


@pytest.mark.parametrize("how", ["fault", "trap"])
def test_kernels_that_ended_before_the_device_stopped_are_timed(stages, program, how):
    """HIP of ROCm 6.4 aborts the program, later ones return an error."""
    done = stages.run("profile", "--json", "--", program("endings"), how)
    assert done.manifest["program"]["exit_code"] != 0
    calls = {kernel["name"]: kernel["calls"] for kernel in done.manifest["kernels"]}
    assert (calls["setup_data(int*)"], calls["target(int*)"]) == (1, 51)


def test_a_program_that_is_killed_keeps_all_times_that_it_waited_for(stages, program):
    words = ("--json", "--", program("many_dispatches"), 5000, 1, "kill")
    done = stages.run("profile", *words).must(ExitCode.PROGRAM)
    assert "ended by SIGKILL" in done.err
    profile = done.manifest
    assert profile["program"]["exit_signal"] == 9
    kernels = {kernel["name"]: kernel["calls"] for kernel in profile["kernels"]}
    assert kernels["other(unsigned int*)"] == 5000


def test_a_program_without_kernels_is_an_answer(stages):
    done = stages.run("profile", "--", "true")
    done.must(ExitCode.ANSWER_IS_NO)
    assert "never used a GPU" in done.err
    done = stages.run("profile", "--", "false")
    done.must(ExitCode.PROGRAM)


# A daemon: the shell ends at once, and its child goes on without the shell's files.
DAEMON = ("sh", "-c", '(sleep "$0"; exec "$@") </dev/null >/dev/null 2>&1 &')


@pytest.mark.parametrize("stage", [("profile",), ("capture", "--kernel", "target")])
def test_a_daemon_that_has_not_used_the_gpu_is_named(stages, stage):
    done = stages.run(*stage, "--", *DAEMON, 20, "true").must(ExitCode.ANSWER_IS_NO)
    assert re.search(r"sh ended with exit code 0 and left running: s\w+ \(process \d+\)", done.err)
    assert "never used a GPU" not in done.err
    assert "in the foreground" in done.err


def test_a_daemon_that_uses_the_gpu_soon_is_profiled_and_captured(stages, program):
    daemon = (*DAEMON, 0.5, program("many_dispatches"), 5, 1)
    profile = stages.run("profile", "--json", "--", *daemon).must().manifest
    assert {kernel["name"]: kernel["calls"] for kernel in profile["kernels"]}["other(unsigned int*)"] == 5
    assert len(stages.run("capture", "--kernel", "target", "--", *daemon).must().digests) == 1


def test_a_daemon_that_used_the_gpu_and_goes_on_is_named(stages, program):
    words = ("sh", "-c", '("$0" 5 1; sleep 20) </dev/null >/dev/null 2>&1 &', program("many_dispatches"))
    done = stages.run("profile", "--json", "--", *words).must()
    assert re.search(r"still running, and no longer watched: s\w+ \(process \d+\)", done.err)
    assert done.manifest["kernels"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("./app", "5"), "kc-profile -- ./app 5"),
        (("--timeout", "-1", "--", "true"), "more than 0"),
        (("--timeout", "nan", "--", "true"), "more than 0"),
        (("--output", "/nowhere/x.json", "--", "true"), "there is no folder /nowhere"),
        (("--app-stdin", "/nowhere", "--", "true"), "cannot open /nowhere"),
        (("--app-stdout", "/nowhere/x", "--", "true"), "cannot open /nowhere/x"),
        (("--from-rocprofv3", "x.csv", "--", "true"), "runs no program, but a command is given"),
    ],
)
def test_what_makes_no_sense_is_refused_before_the_program_runs(stages, words, says):
    done = stages.run("profile", *words).must(ExitCode.USAGE)
    assert says in done.err


def test_a_program_that_takes_too_long_is_ended(stages):
    done = stages.run("profile", "--timeout", "0.5", "--", "sleep", "1000").must(ExitCode.PROGRAM)
    assert "within 0.5 s" in done.err
    words = ["--kernel", "a", "--timeout", "0.5", "--", "sleep", "1000"]
    done = stages.run("capture", *words).must(ExitCode.PROGRAM)
    assert "within 0.5 s" in done.err


def test_a_profile_of_rocprofv3_and_a_command_make_a_capture(stages, program):
    statistics = stages.folder / "kernel_stats.csv"
    statistics.write_text(
        '"Name","Calls","TotalDurationNs"\n'
        '"__amd_rocclr_fillBufferAligned.kd",9,9000\n"target(unsigned int*) [clone .kd]",2,4000\n'
    )
    (profile,) = stages.run("profile", "--from-rocprofv3", statistics).must().digests
    done = stages.run("capture", profile).must(ExitCode.USAGE)
    assert f"kc-capture {profile[:12]} -- ./app" in done.err
    stages.run("capture", profile, "--").must(ExitCode.USAGE)
    done = stages.run("capture", profile, "--", program("many_dispatches"), 1, 1).must()
    # HIP's own kernels are passed over, and that is said.
    assert "__amd_rocclr_fillBufferAligned took more time" in done.err
    (digest,) = done.digests
    assert stages.show(digest)["kernel"]["mangled_name"] == "_Z6targetPj"
    done = stages.run("capture", "--rank", 1, profile, "--", program("many_dispatches"), 1, 1)
    done.must(ExitCode.ANSWER_IS_NO)


def test_a_capture_runs_the_program_on_the_software_gpu_that_the_profile_saw(stages, program):
    stages.target = "gfx942"
    (profile,) = stages.run("profile", "--", program("vector_add", "gfx942")).must().digests
    stages.target = "gfx90a"
    (digest,) = stages.run("capture", profile).must().digests
    assert stages.show(digest)["environment"]["devices"][0]["architecture"] == "gfx942"


def test_a_store_that_cannot_be_written_is_told_before_the_program_runs(stages):
    (stages.store / "tmp").rmdir()
    (stages.store / "tmp").touch()
    began = stages.folder / "began"
    stages.run("profile", "--", "touch", began).must(ExitCode.ARTIFACT)
    assert not began.exists()


def test_a_socket_has_a_short_name_wherever_temporary_files_lie(stages, program):
    place = stages.folder / ("x" * 100)
    place.mkdir()
    stages.variables["TMPDIR"] = str(place)
    stages.run("profile", "--", program("many_dispatches"), 1, 1).must()
    assert list(place.iterdir()) == []


def test_a_command_beside_a_profile_replaces_its_own(stages, program):
    (profile,) = stages.run("profile", "--", program("many_dispatches"), 50, 3).must().digests
    done = stages.run("capture", "--rank", 99, profile).must(ExitCode.USAGE)
    assert f"`kc-show {profile[:12]}` lists them" in done.err
    done = stages.run("capture", "--rank", 1, profile, "--", program("many_dispatches"), 1, 1).must()
    (digest,) = done.digests
    capture = stages.show(digest)
    assert capture["program"]["command"][1:] == ["1", "1"]
    assert capture["kernel"]["mangled_name"] == stages.show(profile)["kernels"][0]["mangled_name"]


def test_a_kernel_that_runs_on_does_not_hold_what_it_need_not(stages, program):
    """More than the profiler looks at each time."""
    words = [program("persistent_kernel"), program("words_kernels"), 600]
    profile = stages.run("profile", "--json", "--", *words).must().manifest
    assert profile["program"]["exit_code"] == 0
    calls = {kernel["name"]: kernel["calls"] for kernel in profile["kernels"]}
    assert calls == {"spin_until_set": 1, "unread": 600}
