"""Profiles from rocprofv3's CSV files, as rocprofv3 writes them."""

from __future__ import annotations

import json

import executables
import pytest

from kerncap_stages.collect.rocprofv3 import import_profile
from kerncap_stages.errors import ArtifactError
from kerncap_stages.store import Store

STATISTICS = (
    '"Name","Calls","TotalDurationNs","AverageNs","Percentage","MinNs","MaxNs","StdDev"\n'
    '"void scale<float>(float*, int)",4,4000,1000.000000,80.00,400,1600,500.000000\n'
    '"once [clone .kd]",1,1000,1000.000000,20.00,1000,1000,nan\n'
)
TRACE_HEAD = (
    '"Kind","Agent_Id","Queue_Id","Kernel_Id","Kernel_Name","Correlation_Id","Start_Timestamp","End_Timestamp",'
    '"Private_Segment_Size","LDS_Block_Size","Workgroup_Size_X","Workgroup_Size_Y","Workgroup_Size_Z",'
    '"Grid_Size_X","Grid_Size_Y","Grid_Size_Z"\n'
)


@pytest.fixture
def store(tmp_path):
    return Store.open(tmp_path / "store")


def trace(*rows):
    return TRACE_HEAD + "".join(
        f'"KERNEL_DISPATCH","Agent 1",1,2,"{name}",3,{start},{end},0,512,64,1,1,{grid},1,1\n'
        for name, start, end, grid in rows
    )


def test_statistics_keep_every_number(store, tmp_path):
    path = tmp_path / "kernel_stats.csv"
    path.write_text(STATISTICS)
    digest, profile = import_profile(store, [path])
    first, second = profile.kernels
    assert (first.name, first.calls, first.total_ns, first.min_ns, first.max_ns) == (
        "void scale<float>(float*, int)", 4, 4000, 400, 1600,
    )  # fmt: skip
    assert first.stddev_ns == pytest.approx(500)
    assert first.share == pytest.approx(0.8)
    assert (second.name, second.stddev_ns) == ("once", 0.0)
    assert (profile.imported_from, profile.program) == ("rocprofv3", None)
    assert [entry.digest for entry in store.list_artifacts("profile")] == [digest]


def test_a_trace_gives_times_and_shapes(store, tmp_path):
    path = tmp_path / "kernel_trace.csv"
    path.write_text(
        trace(("k", 100, 140, 640), ("k", 200, 260, 64), ("k", 300, 350, 640), ("other", 5, 6, 64))
    )
    _, profile = import_profile(store, [path])
    k = profile.kernels[0]
    assert (k.calls, k.total_ns, k.min_ns, k.max_ns, k.stddev_ns) == (3, 150, 40, 60, 10.0)
    shapes = [
        (shape.grid_work_items[0], shape.grid_blocks[0], shape.calls, shape.lds_bytes)
        for shape in k.launch_shapes
    ]
    assert shapes == [(640, 10, 2, 512), (64, 1, 1, 512)]


def test_files_of_several_processes_are_added_up(store, tmp_path):
    paths = [tmp_path / "1_kernel_trace.csv", tmp_path / "2_kernel_trace.csv"]
    for path in paths:
        path.write_text(trace(("k", 0, 10, 64)))
    _, profile = import_profile(store, paths)
    assert [(kernel.name, kernel.calls) for kernel in profile.kernels] == [("k", 2)]


@pytest.mark.parametrize(
    "text",
    ["\n", "a,b\n1,2\n", STATISTICS.replace("4000", "many"), trace(("k", "x", 10, 64)), "\0\0\0"],
)
def test_what_is_no_file_of_rocprofv3_is_refused(store, tmp_path, text):
    path = tmp_path / "file.csv"
    path.write_text(text)
    with pytest.raises(ArtifactError) as refused:
        import_profile(store, [path])
    assert "rocprofv3 --kernel-trace" in refused.value.hint
    with pytest.raises(ArtifactError):
        import_profile(store, [tmp_path / "absent.csv"])


def test_an_empty_file_lists_no_kernels_and_is_named(store, tmp_path):
    empty, full = tmp_path / "1_kernel_stats.csv", tmp_path / "2_kernel_stats.csv"
    empty.touch()
    full.write_text(STATISTICS)
    told = []
    assert import_profile(store, [empty], told.append)[1].kernels == ()
    assert told == [f"{empty} is empty: it lists no kernels"]
    assert len(import_profile(store, [empty, full], told.append)[1].kernels) == 2
    done = executables.run("kc-profile", "--from-rocprofv3", empty, "--json", store=store.root)
    assert (done.returncode, json.loads(done.stdout)["kernels"]) == (0, [])
    assert f"kc-profile: warning: {empty} is empty" in done.stderr


def test_the_line_that_makes_no_sense_is_named(store, tmp_path):
    path = tmp_path / "kernel_trace.csv"
    path.write_text(trace(("k", 100, 140, 640), ("k", "abc", 260, 64)))
    with pytest.raises(ArtifactError, match=r"kernel_trace\.csv, line 3: .*'abc'"):
        import_profile(store, [path])
