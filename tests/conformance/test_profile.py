"""kc-profile: every dispatch counted and timed, and ranked."""

from __future__ import annotations

import pytest

from kerncap_stages.errors import ExitCode


def profile_of(stages, *words):
    return stages.run("profile", "--json", "--", *words).must()


def test_every_dispatch_is_counted_and_timed(stages, program, backend):
    profile = profile_of(stages, program("many_dispatches"), 300, 20).manifest
    kernels = {kernel["name"]: kernel for kernel in profile["kernels"]}
    other, target = kernels["other(unsigned int*)"], kernels["target(unsigned int*)"]
    assert (other["calls"], target["calls"]) == (300, 20)
    assert other["mangled_name"] == "_Z5otherPj"
    for kernel in profile["kernels"]:
        assert 0 < kernel["min_ns"] <= kernel["mean_ns"] <= kernel["max_ns"]
        assert kernel["mean_ns"] * kernel["calls"] == pytest.approx(kernel["total_ns"])
        assert sum(shape["calls"] for shape in kernel["launch_shapes"]) == kernel["calls"]
        assert sum(shape["total_ns"] for shape in kernel["launch_shapes"]) == kernel["total_ns"]
    (shape,) = other["launch_shapes"]
    assert shape["grid_blocks"] == shape["block_work_items"] == shape["grid_work_items"] == [1, 1, 1]
    totals = [kernel["total_ns"] for kernel in profile["kernels"]]
    assert totals == sorted(totals, reverse=True)
    assert sum(kernel["share"] for kernel in profile["kernels"]) == pytest.approx(1.0)
    assert profile["processes"] == 1
    assert profile["time_source"] == ("software_gpu" if backend == "hsa" else "device")
    assert profile["environment"]["backend"] == backend


def test_graphs_and_several_streams_are_counted(stages, program):
    kernels = {
        kernel["name"]: kernel
        for kernel in profile_of(stages, program("graph_nodes"), 100).manifest["kernels"]
    }
    assert kernels["target(unsigned int*)"]["calls"] == 3
    assert kernels["step(unsigned int*, unsigned int)"]["calls"] == 300


def test_forked_workers_are_added_up(stages, program):
    profile = profile_of(stages, program("fork_workers")).manifest
    assert profile["processes"] == 3
    kernels = {kernel["name"]: kernel for kernel in profile["kernels"]}
    assert kernels["target(int*, int)"]["calls"] == 3


def test_a_capture_from_a_profile_by_rank(stages, program):
    (profile,) = stages.run("profile", "--", program("many_dispatches"), 50, 3).must().digests
    ranked = [kernel["mangled_name"] for kernel in stages.show(profile)["kernels"]]
    for rank, mangled in enumerate(ranked, start=1):
        (digest,) = stages.run("capture", "--rank", rank, profile).must().digests
        capture = stages.show(digest)
        assert capture["kernel"]["mangled_name"] == mangled
        assert capture["parents"] == [f"manifest:{profile}"]
    (digest,) = stages.run("capture", "--kernel", "target", stdin=profile).must().digests
    assert stages.show(digest)["kernel"]["mangled_name"] == "_Z6targetPj"
    stages.run("capture", "--rank", 99, profile).must(ExitCode.USAGE)


def test_a_profile_pipes_into_capture_and_replay(stages, program, backend):
    replay = stages.chain(program("vector_add"))
    assert (replay["kind"], replay["matches_golden"]) == ("replay", True)
    assert replay["timing"]["source"] == ("software_gpu" if backend == "hsa" else "device")
