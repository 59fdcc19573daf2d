"""kc-replay: runs, times and dumps, and variants that do what they should not."""

from __future__ import annotations

import json

import numpy as np


def out_region(stages, digest):
    """The region that the kernel writes, and the pointer's offset in it."""
    capture = stages.show(digest)
    pointer = int.from_bytes(bytes.fromhex(capture["kernarg"])[8:16], "little")
    region = next(r for r in capture["regions"] if 0 <= pointer - r["base_address"] < r["size_bytes"])
    return region, pointer - region["base_address"]


def test_runs_are_counted_without_the_warm_up(stages, scaled, backend):
    replay = stages.replay(scaled, "--iterations", 5, "--warmup", 2).must().manifest
    timing = replay["timing"]
    assert len(timing["samples_ns"]) == 5
    assert timing["source"] == ("software_gpu" if backend == "hsa" else "device")
    low, middle, high = timing["p05_ns"], timing["median_ns"], timing["p95_ns"]
    assert 0 < timing["min_ns"] <= low <= middle <= high <= timing["max_ns"]
    assert replay["plan"]["warmup"] == 2


def test_each_run_starts_from_the_captured_state(stages, program):
    (digest,) = stages.capture("accumulate", program("changed_state"))
    for options in (("--warmup", 3), ("--iterations", 4), ("--flush-cache", "--iterations", 2)):
        assert stages.replay(digest, *options).must().manifest["matches_golden"] is True


def test_dump_writes_every_region_as_it_is_after_the_last_run(stages, scaled, tmp_path):
    capture = stages.show(scaled)
    stages.replay(scaled, "--dump-output", tmp_path / "out").must()
    files = {path.name: path.stat().st_size for path in (tmp_path / "out").iterdir()}
    assert files == {
        f"region_{region['base_address']:016x}.bin": region["size_bytes"]
        for region in capture["regions"]
        if region["pre"]
    }
    region, at = out_region(stages, scaled)
    content = (tmp_path / "out" / f"region_{region['base_address']:016x}.bin").read_bytes()
    written = np.frombuffer(content[at : at + 3000 * 4], np.float32)
    assert np.array_equal(written, np.arange(3000, dtype=np.float32) * 1.5)


def test_several_captures_come_through_a_pipe(stages, program, tmp_path):
    digests = stages.capture("accumulate", program("changed_state"), options=("--count", 2))
    done = stages.run(
        "replay", "--dump-output", tmp_path / "out", stdin="".join(f"{digest}\n" for digest in digests)
    ).must()
    replays = [stages.show(digest) for digest in done.digests]
    assert [replay["capture"] for replay in replays] == [f"manifest:{digest}" for digest in digests]
    assert all(replay["matches_golden"] for replay in replays)
    for digest, folder in zip(digests, (tmp_path / "out", tmp_path / "out/1"), strict=True):
        capture = stages.show(digest)
        for region in capture["regions"]:
            if region["post"]:
                dumped = (folder / f"region_{region['base_address']:016x}.bin").read_bytes()
                assert dumped == stages.memory(region["post"])


def test_comparing_runs_both_in_turn_and_gives_a_ratio_with_its_spread(stages, scaled, variant):
    done = stages.replay(scaled, "--compare", variant("idempotent"), "--iterations", 6).must()
    comparison = done.manifest["comparison"]
    assert len(done.manifest["timing"]["samples_ns"]) == len(comparison["baseline"]["samples_ns"]) == 6
    assert 0 < comparison["ratio_p05"] <= comparison["ratio"] <= comparison["ratio_p95"]
    assert "variant / baseline" in done.err
    assert done.manifest["matches_golden"] is True


def test_another_shape_runs_and_is_not_compared(stages, scaled, tmp_path):
    shape = ("--grid-blocks", "4", "--block", "64")
    done = stages.replay(scaled, *shape, "--dump-output", tmp_path / "out").must()
    assert done.manifest["matches_golden"] is None
    assert done.manifest["plan"]["overrides"]["grid_work_items"] == [256, 1, 1]
    region, at = out_region(stages, scaled)
    content = (tmp_path / "out" / f"region_{region['base_address']:016x}.bin").read_bytes()
    written = np.frombuffer(content[at : at + 3000 * 4], np.float32)
    assert written[255] == 255 * 1.5
    assert not written[256:].any()


def test_the_captured_shape_may_be_named_and_is_compared(stages, scaled):
    launch = stages.show(scaled)["launch"]
    blocks, items, block = (
        ",".join(map(str, launch[name])) for name in ("grid_blocks", "grid_work_items", "block_work_items")
    )
    for shape in (("--grid-blocks", blocks), ("--grid-work-items", items, "--block", block)):
        made = stages.replay(scaled, *shape).must().manifest
        assert made["matches_golden"] is True
        assert made["plan"]["overrides"]["grid_work_items"] is None


def test_a_variant_that_never_ends_is_a_result(stages, scaled, variant):
    done = stages.replay(scaled, "--variant", variant("wild_variants", "HANG"), "--timeout", 5).must(4)
    assert done.manifest["outcome"] == "timed_out"
    assert "5 s" in done.manifest["explanation"]


def test_a_variant_that_traps_is_a_result(stages, scaled, variant):
    done = stages.replay(scaled, "--variant", variant("wild_variants", "TRAP")).must(4)
    assert done.manifest["outcome"] in ("faulted", "crashed")
    assert done.manifest["explanation"]


def test_a_variant_that_faults_is_a_result_and_the_next_replay_runs(stages, scaled, variant):
    done = stages.replay(scaled, "--variant", variant("wild_variants", "FAULT")).must(4)
    assert done.manifest["outcome"] == "faulted"
    assert done.manifest["explanation"]
    assert stages.replay(scaled).must().manifest["matches_golden"] is True


def test_a_variant_for_smaller_blocks_is_not_launched(stages, scaled, variant):
    """HIP and CUDA would refuse it in the program: whatever the device makes of it is no answer."""
    words = "it allows 64 threads in a block (__launch_bounds__), but this launch has 128"
    bounded = variant("wild_variants", "BOUNDED=64")
    assert words in stages.replay(scaled, "--variant", bounded).must(4).manifest["explanation"]
    assert words in stages.run("validate", scaled, "--variant", bounded).must(1).err
    stages.replay(scaled, "--variant", bounded, "--block", 64, "--grid", 64).must()


def test_a_variant_has_the_launch_that_the_file_beside_it_says(stages, scaled, variant, tmp_path):
    built = variant("idempotent")
    own = tmp_path / f"own{built.suffix}"
    own.write_bytes(built.read_bytes())
    shape = {"grid_blocks": [48, 1, 1], "block_work_items": [64, 1, 1], "dynamic_lds_bytes": 1024}
    beside = tmp_path / "own.shape.json"
    beside.write_text(json.dumps(shape))
    right = stages.run("validate", scaled, "--variant", own).must()
    assert "launched as 48 x 1 x 1 blocks of 64 x 1 x 1, 1,024 bytes of dynamic LDS" in right.err
    assert stages.show(right.digests[0])["variant_shape"] == shape
    timed = stages.replay(scaled, "--compare", own, "--iterations", 3).must().manifest
    assert timed["plan"]["variant_shape"] == shape
    assert timed["matches_golden"] is True
    assert timed["comparison"]["ratio"] > 0

    beside.write_text('{"grid_blocks": [12, 1, 1]}')  # half of the elements
    assert "Result: FAIL" in stages.run("validate", scaled, "--variant", own).must(1).err
    replayed = stages.replay(scaled, "--variant", own).must(1)
    assert "wrong in 1 of 1 timed run" in replayed.err
    by_options = stages.run("validate", scaled, "--variant", own, "--grid-blocks", 48, "--block", 64)
    assert "48 x 1 x 1 blocks of 64 x 1 x 1" in by_options.must().err

    beside.write_text('{"blocks": 3}')
    assert "own.shape.json does not say how to launch" in stages.replay(scaled, "--variant", own).must(2).err
    refused = stages.run("validate", scaled, "--baseline", "--block", 64).must(2)
    assert "--baseline runs none" in refused.err


def test_a_variant_without_the_kernel_is_named(stages, scaled, variant):
    done = stages.replay(scaled, "--variant", variant("vector_add")).must(3)
    assert "has no kernel _Z10scale_into" in done.err


def test_an_assert_that_fails_in_a_variant_is_a_result(stages, scaled, variant):
    done = stages.replay(scaled, "--variant", variant("idempotent", "ASSERTS")).must(4)
    assert done.manifest["outcome"] in ("crashed", "faulted")
    assert done.manifest["explanation"]
    assert "count == 17" in done.err
