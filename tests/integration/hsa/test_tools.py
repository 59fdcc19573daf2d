"""How the library gets into the program: beside other tools, and by way of rocprofiler-register."""

from __future__ import annotations

import re
import subprocess

import pytest

from kerncap_stages.errors import ExitCode
from kerncap_stages.machine.native_paths import find_native_file


@pytest.mark.parametrize("ours_first", [False, True], ids=["loaded-before-us", "loaded-after-us"])
def test_another_tool_sees_its_queues_too(stages, program, ours_first):
    counted = stages.folder / "counted"
    stages.variables["COUNTING_TOOL_FILE"] = str(counted)
    theirs, ours = str(program("counting_tool")), str(find_native_file("libkerncap_hsa.so"))
    # kc-capture adds itself at the end; ROCr loads a library that is named twice once.
    stages.variables["HSA_TOOLS_LIB"] = f"{ours} {theirs}" if ours_first else theirs
    captures, printed = stages.capture_and_listen(
        "target(", program("many_dispatches"), 50, 10, options=("--count", 2)
    )
    assert "wrong 0" in printed
    assert len(captures) == 2
    assert all(sum(region["written_size_bytes"] for region in capture["regions"]) for capture in captures)
    assert int(counted.read_text()) >= 60


def test_by_way_of_rocprofiler_register(newer):
    """A ROCr that was built with it: 7.2's root has the library, a tool of the tests registers the tables."""
    stages, program = newer
    stages.variables["HSA_TOOLS_LIB"] = str(program("registrant_tool"))
    stages.variables["KERNCAP_LOAD_BY"] = "rocprofiler-register"
    done = stages.run("capture", "--kernel", "target(", "--", program("many_dispatches"), 5, 1).must()
    assert "registered with status 0" in done.err
    (digest,) = done.digests
    assert stages.show(digest)["dispatch"]["index_in_process"] >= 5


def test_a_program_that_was_not_started_by_a_stage_is_left_alone(stages, program):
    """The library in HSA_TOOLS_LIB without a collector: nothing is hooked, nothing is said."""
    environment = {**stages.environment, "HSA_TOOLS_LIB": str(find_native_file("libkerncap_hsa.so"))}
    done = subprocess.run(
        [program("many_dispatches"), "5", "1"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0
    assert "wrong 0" in done.stdout
    assert "kerncap" not in done.stderr
    environment["KERNCAP_SOCKET"] = str(stages.folder / "nobody")
    done = subprocess.run(
        [program("many_dispatches"), "5", "1"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0
    assert "kerncap: not active in process" in done.stderr


def test_a_program_that_closes_our_connection_is_told_so(stages, program):
    """And what it opens under the same number is left alone."""
    printed = stages.folder / "printed"
    words = ["--app-stdout", printed, "--", program("closed_descriptors"), stages.folder]
    done = stages.run("capture", "--kernel", "target(", "--dispatch", 1, *words).must(ExitCode.PROGRAM)
    assert "closed its connection to kerncap-stages" in done.err
    assert re.findall(r"closed \d+ bytes (\d+)", printed.read_text()) == ["0"]
    done = stages.run("capture", "--kernel", "target(", "--count", 3, *words).must()
    assert [stages.show(digest)["dispatch"]["index_of_kernel"] for digest in done.digests] == [0]
    assert "later dispatches were not seen" in done.err
    assert "wrong 0" in printed.read_text()


@pytest.mark.parametrize("dispatch", [0, 1])
def test_a_program_that_closes_all_its_files_ends_as_it_does_alone(stages, program, dispatch):
    """However far the capture of its first dispatch is: that capture is whole, or the reason is told."""
    for delay_us in (0, 300, 1000, 3000, 10_000, 30_000):
        printed = stages.folder / "printed"
        words = ["--app-stdout", printed, "--wait", 10, "--", program("closes_all_files"), delay_us]
        done = stages.run("capture", "--kernel", "target(", "--dispatch", dispatch, *words)
        assert "wrong 0" in printed.read_text(), f"{delay_us} us, exit code {done.code}: {done.err}"
        if dispatch == 1:
            done.must(ExitCode.PROGRAM)
        if done.code == 0:
            assert stages.show(done.out.strip())["dispatch"]["index_of_kernel"] == 0
        else:
            assert "closed its connection to kerncap-stages" in done.must(ExitCode.PROGRAM).err


def test_a_profiled_program_that_closes_all_its_files_ends_as_it_does_alone(stages, program):
    for delay_us in (0, 1000, 10_000):
        printed = stages.folder / "printed"
        words = ["--app-stdout", printed, "--", program("closes_all_files"), delay_us]
        done = stages.run("profile", *words).must()
        assert "wrong 0" in printed.read_text()
        assert "have no time and are not in the table" in done.err
