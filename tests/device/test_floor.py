"""The least time of a kernel: what it must write, at the peak that the device says that it has."""

from __future__ import annotations

import json

import pytest
from device_programs import link_device_code

MIB = 1 << 20


def replay(kc, capture, *options):
    done = kc.ok("kc-replay", capture, "--warmup", 3, "--iterations", 11, "--json", *options)
    return json.loads(done.out), done.err


@pytest.mark.alone
@pytest.mark.parametrize("flush", [(), ("--flush-cache",)])
def test_a_kernel_that_only_writes_comes_near_the_floor_and_never_below(kc, built, flush):
    """Beyond the cache the memory's peak counts: an H100 writes at about nine tenths of it."""
    capture = kc.capture("fill", built["fills"], 1024)
    made, err = replay(kc, capture, *flush)
    floor = made["floor"]
    assert floor["changed_size_bytes"] == 1024 * MIB
    assert floor["memory_bytes_per_s"] > 1e11
    beyond = 1024 * MIB - floor["cache_size_bytes"]
    assert floor["least_ns"] == pytest.approx(beyond / floor["memory_bytes_per_s"] * 1e9, rel=1e-6)
    assert 0.5 < floor["least_ns"] / made["timing"]["median_ns"] < 1.0
    assert "of the memory's peak of" in err
    assert "what must be read is not known" in err
    assert made["impossible"] is None


@pytest.mark.alone
@pytest.mark.parametrize("mib", [1, 4, 16])
def test_what_a_cache_holds_is_not_measured_against_the_memory(kc, built, mib):
    """A dirty line may stay in the cache: writes faster than the memory's peak are possible there."""
    capture = kc.capture("fill", built["fills"], mib)
    made, err = replay(kc, capture)
    floor = made["floor"]
    assert floor["changed_size_bytes"] == mib * MIB < floor["cache_size_bytes"]
    assert floor["least_ns"] == pytest.approx(mib * MIB / floor["units_bytes_per_s"] * 1e9, rel=1e-6)
    assert floor["least_ns"] < made["timing"]["median_ns"]
    assert "may hold it all" in err


@pytest.mark.alone
def test_a_comparison_has_the_floor_beside_both_times(kc, built):
    capture = kc.capture("fill", built["fills"], 256)
    done = kc.ok("kc-replay", capture, "--compare", built["fills.cubin"], "--warmup", 3, "--iterations", 11)
    assert "floor: 256 MiB must be written" in done.err
    assert "variant / baseline: " in done.err


@pytest.mark.alone
def test_an_evaluation_has_the_floor_beside_its_times(kc, built):
    capture = kc.capture("fill", built["fills"], 256)
    done = kc.ok("kc-evaluate", capture, built["fills.cubin"], "--quick", "--runs", 9, "--json")
    time = json.loads(done.out)["variants"][0]["cases"][0]["time"]
    assert 0 < time["least_ns"] < time["variant_ns"]
    assert "Floor: what must be written takes at least " in done.err


@pytest.mark.alone
def test_work_behind_what_is_timed_has_no_impossible_time(kc, built):
    """A kernel that only launches the one that works: its own time is a few microseconds."""
    capture = kc.capture("fill", built["fills"], 1024)
    link_device_code("fills_behind", kc.folder / "behind.cubin")
    done = kc.run(
        "kc-replay", capture, "--compare", "behind.cubin", "--warmup", 3, "--iterations", 11, "--json"
    )
    made = json.loads(done.out)
    assert made["outcome"] == "completed", done.err
    if done.code == 0:  # its time has that of the work in it
        assert made["timing"]["median_ns"] > made["floor"]["least_ns"], done.err
        return
    assert done.code == 1, done.err
    assert made["impossible"].startswith("impossible: "), done.err
    assert made["timing"] is None
    assert made["comparison"] is None
    assert "so no times are shown" in done.err
    assert "variant / baseline" not in done.err
