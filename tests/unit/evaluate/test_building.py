"""Sources are built in copies of a project, by its Makefile. Here the compiler is a line of shell."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from projects import write_record

from kerncap_stages.errors import UsageError
from kerncap_stages.evaluate.building import Builder, read_source
from kerncap_stages.evaluate.make_runner import BuildStoppedError, NotBuiltError

MAKEFILE = """
recompile:
\t@! grep -q syntax kernel_variant.cpp || { \\
\t  echo 'warning: w' >&2; echo "$(CURDIR)/kernel_variant.cpp:1: error: bad" >&2; exit 1; }
\t@! grep -q hang kernel_variant.cpp || sleep 600
\t@! grep -q large kernel_variant.cpp || \\
\t  python3 -c 'bytearray(2 << 30)' 2> /dev/null || { echo 'error: out of memory' >&2; exit 1; }
\t@! grep -q nothing kernel_variant.cpp || exit 0; \\
\t  cat kernel_variant.cpp compile_flags.rsp deps/header > optimized.hsaco
"""


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "a project"
    (folder / "deps").mkdir(parents=True)
    (folder / "capture").mkdir()
    for name, text in {
        "Makefile": MAKEFILE, "kernel_variant.cpp": "original\n", "compile_flags.rsp": '"-O3"\n',
        "vfs.yaml": "",
        "deps/header": "header\n", "optimized.hsaco": "of the user", "capture/large": "not copied",
    }.items():  # fmt: skip
        (folder / name).write_text(text)
    write_record(folder)
    return folder


@pytest.fixture
def begin(project, tmp_path):
    """``begin(…)`` returns the builder of a project as it is then. It ends with the test."""
    with contextlib.ExitStack() as stack:

        def make(**settings):
            (tmp_path / "work").mkdir()
            made = Builder(project, tmp_path / "work", 2, 60.0, **settings)
            stack.callback(made.stop)
            return made

        yield make


@pytest.fixture
def builder(begin):
    return begin()


def test_a_source_is_built_with_the_projects_flags_and_its_own(builder, project, tmp_path):
    before = {path: path.read_bytes() for path in project.rglob("*") if path.is_file()}
    assert builder.build(b"mine\n", ["-DA=b c", '-DQ="x"']) == (
        b'mine\n"-O3"\n"-DA=b c"\n"-DQ=\\"x\\""\nheader\n'
    )
    assert builder.build(b"mine\n", []) == b'mine\n"-O3"\nheader\n'  # no flag is left from before
    assert {path: path.read_bytes() for path in project.rglob("*") if path.is_file()} == before
    assert not list((tmp_path / "work").rglob("large"))


def test_what_compilers_leave_is_in_the_folder_of_the_builds(begin, project, tmp_path):
    (project / "Makefile").write_text("recompile:\n\ttouch $(TMPDIR)/left\n\ttouch optimized.hsaco\n")
    begin().build(b"mine\n", [])
    assert len(list((tmp_path / "work").rglob("left"))) == 1


def test_many_builds_at_once_do_not_meet(builder):
    with ThreadPoolExecutor(6) as pool:
        texts = [f"source {number}\n".encode() for number in range(24)]
        built = list(pool.map(lambda text: builder.build(text, []), texts))
    assert built == [text + b'"-O3"\nheader\n' for text in texts]


@pytest.mark.parametrize("text", [b"syntax", b"nothing"])
def test_what_does_not_compile_says_why(builder, text):
    with pytest.raises(NotBuiltError) as caught:
        builder.build(text, [])
    assert str(caught.value) == (
        "kernel_variant.cpp:1: error: bad" if text == b"syntax" else "it prints no message"
    )
    assert builder.build(b"mine\n", []) == b'mine\n"-O3"\nheader\n'  # not what was built before


def test_a_compiler_that_hangs_is_ended(project, tmp_path):
    (tmp_path / "work").mkdir()
    builder = Builder(project, tmp_path / "work", 1, 0.5)
    with pytest.raises(NotBuiltError, match=r"within 0.5 s"):
        builder.build(b"hang", [])
    builder.stop()


def test_what_links_lead_to_is_read_and_never_written(project, tmp_path):
    (tmp_path / "inc").mkdir()
    elsewhere = {"kernel_variant.cpp": "the user's", "compile_flags.rsp": '"-O1"\n', "deps/header": "far\n"}
    for name, text in elsewhere.items():
        target = tmp_path / "inc" / name.rpartition("/")[2]
        target.write_text(text)
        (project / name).unlink()
        (project / name).symlink_to(os.path.relpath(target, (project / name).parent))
    (project / "deps/original.cpp").symlink_to("../kernel_variant.cpp")  # as make does for nvcc
    (tmp_path / "work").mkdir()
    builder = Builder(project, tmp_path / "work", 1, 60.0)
    assert builder.build(b"mine\n", ["-DA"]) == b'mine\n"-O1"\n"-DA"\nfar\n'
    for name, text in elsewhere.items():
        assert (tmp_path / "inc" / name.rpartition("/")[2]).read_text() == text
    assert not [path for path in (tmp_path / "work").rglob("*") if path.is_symlink()]
    assert not list((tmp_path / "work").rglob("original.cpp"))
    builder.stop()


def test_edits_during_an_evaluation_come_too_late(project, builder):
    (project / "deps/header").write_text("another\n")
    assert builder.build(b"mine\n", []) == b'mine\n"-O3"\nheader\n'


def test_no_build_begins_after_the_end(project, tmp_path, monkeypatch):
    """Threads that wait for a copy, or make one, are not seen among the builds that run."""
    (tmp_path / "work").mkdir()
    builder = Builder(project, tmp_path / "work", 1, 60.0)
    copies, may_go_on, copy = threading.Event(), threading.Event(), shutil.copytree

    def copy_slowly(*paths):
        copies.set()
        assert may_go_on.wait(60)
        return copy(*paths)

    monkeypatch.setattr("kerncap_stages.evaluate.building.shutil.copytree", copy_slowly)
    with ThreadPoolExecutor(2) as pool:
        builds = [pool.submit(builder.build, b"hang", []) for _ in range(2)]
        assert copies.wait(60)
        builder.stop()
        may_go_on.set()
        for build in builds:
            with pytest.raises(BuildStoppedError):
                build.result(30)


def test_a_build_that_runs_is_ended(project, tmp_path):
    (tmp_path / "work").mkdir()
    builder = Builder(project, tmp_path / "work", 1, 600.0)
    with ThreadPoolExecutor(1) as pool:
        build = pool.submit(builder.build, b"hang", [])
        while not builder._runner._running:
            time.sleep(0.01)
        builder.stop()
        with pytest.raises(BuildStoppedError):  # nothing is known of the source
            build.result(30)


COORDINATOR = """
import sys
from pathlib import Path
from kerncap_stages.evaluate.building import Builder
Builder(Path(sys.argv[1]), Path(sys.argv[2]), 1, 600.0).build(b"hang", [])
"""


def test_a_build_ends_with_a_coordinator_that_is_killed(project, tmp_path):
    (tmp_path / "work").mkdir()
    words = [sys.executable, "-P", "-c", COORDINATOR, str(project), str(tmp_path / "work")]
    with subprocess.Popen(words) as coordinator:
        while not (compilers := running_in(tmp_path / "work")):
            assert coordinator.poll() is None
            time.sleep(0.01)
        coordinator.kill()
    ends_at = time.monotonic() + 60
    while compilers & running_in(tmp_path / "work"):
        assert time.monotonic() < ends_at
        time.sleep(0.01)


def running_in(folder):
    """The processes whose working folder is below this one."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (process / "cwd").readlink().is_relative_to(folder):
                found.add(process.name)
    return found


def test_a_build_that_takes_too_much_memory_fails(begin, monkeypatch):
    monkeypatch.setattr("kerncap_stages.evaluate.make_runner._MAX_BUILD_BYTES", 1 << 30)
    with pytest.raises(NotBuiltError, match="out of memory"):
        begin().build(b"large", [])


def test_python_may_reserve_address_space_as_gpu_runtimes_do(project, begin, monkeypatch):
    monkeypatch.setattr("kerncap_stages.evaluate.make_runner._MAX_BUILD_BYTES", 1 << 30)
    (project / "kernel_variant.cpp").rename(project / "kernel_variant.py")
    (project / "Makefile").write_text("recompile:\n\tpython3 kernel_variant.py > optimized.hsaco\n")
    write_record(project)
    source = b"import mmap; print(len(mmap.mmap(-1, 4 << 30, prot=mmap.PROT_READ)))"
    assert begin().build(source, []) == b"4294967296\n"


def test_a_folder_without_a_source_cannot_build(tmp_path):
    with pytest.raises(UsageError, match="no source"):
        Builder(tmp_path, tmp_path, 1, 60.0)


def test_a_source_that_cannot_be_read_is_not_built(tmp_path):
    with pytest.raises(NotBuiltError, match="No such file"):
        read_source(tmp_path / "none.hip")
    with pytest.raises(NotBuiltError, match="Is a directory"):
        read_source(tmp_path)


def test_what_a_check_of_the_makefile_says_is_the_reason(project, begin):
    """Before it the Makefile may print its commands; behind it is make's own line."""
    (project / "Makefile").write_text(
        "recompile:\n\t@echo 'clang++ -Werr -c' >&2; echo 'optimized.hsaco has no kernel k' >&2; exit 1\n"
    )
    write_record(project)
    with pytest.raises(NotBuiltError, match=r"^optimized.hsaco has no kernel k$"):
        begin().build(b"mine\n", [])


def test_flags_that_a_winner_added_can_be_left_out_and_the_launch_is_returned(project, begin):
    (project / "Makefile").write_text(
        "recompile:\n\t@cp compile_flags.rsp optimized.hsaco\n"
        "\t@echo '{\"block_work_items\": [64, 1, 1]}' > optimized.shape.json\n"
    )
    write_record(project)
    builder = begin(
        trim=lambda name, content: content.removesuffix(b'"-O3"\n') + name.encode(),
    )
    code, shape = builder.build_with_launch(b"mine\n")
    assert code == b'"-O3"\n'  # as in the project: only ``build`` writes flags
    assert shape.block_work_items == (64, 1, 1)
    assert builder.build(b"mine\n", ["-DA"]) == b'compile_flags.rsp"-DA"\n'
    builder.stop()
