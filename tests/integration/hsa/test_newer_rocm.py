"""The main things on ROCm 7.2, wherever the tests run; `make test-newer` runs this whole folder there."""

from __future__ import annotations

import struct


def test_profile_capture_and_replay(newer):
    stages, program = newer
    (profile,) = stages.run("profile", "--", program("vector_add")).must().digests
    (capture,) = stages.run("capture", "--kernel", "add(", profile).must().digests
    manifest = stages.show(capture)
    assert manifest["parents"] == [f"manifest:{profile}"]
    assert manifest["environment"]["runtime_version"] != ""
    replay = stages.replay(capture, "--iterations", 2).must().manifest
    assert (replay["outcome"], replay["matches_golden"]) == ("completed", True)


def test_nodes_of_a_graph_come_as_one_submission(newer):
    stages, program = newer
    captures, printed = stages.capture_and_listen(
        "target(", program("graph_nodes"), 100, options=("--dispatch", 1)
    )
    assert "wrong 0" in printed
    (capture,) = captures
    assert capture["dispatch"]["from_graph"] is True
    assert stages.replay("@capture").must().manifest["matches_golden"] is True


def test_a_ring_that_is_kept_full(newer):
    stages, program = newer
    batch = 63
    captures, printed = stages.capture_and_listen(
        "target", program("full_ring"), program("words_kernels"), batch, options=("--count", 2, "--every", 50)
    )
    assert "wrong 0" in printed
    for number, capture in zip((0, 50), captures, strict=True):
        (data,) = [region for region in capture["regions"] if region["written_size_bytes"]]
        others = (number + 1) * (batch - 2) + number
        assert struct.unpack_from("<2I", stages.memory(data["post"])) == (others, number + 1)


def test_dispatches_after_static_destructors(newer):
    stages, program = newer
    captures, printed = stages.capture_and_listen(
        "target", program("late_dispatch"), program("words_kernels"), options=("--count", 2)
    )
    assert "word 2" in printed
    assert len(captures) == 2


def test_a_program_with_a_cooperative_queue_ends_well(newer):
    stages, program = newer
    done = stages.run("capture", "--kernel", "rotate_sums", "--", program("grid_sync")).must()
    assert "the program ended" not in done.err
    (capture,) = done.digests
    assert stages.replay(capture).must().manifest["matches_golden"] is True
