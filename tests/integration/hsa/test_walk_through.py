"""From a running program to a replay of one of its kernels, on the other target than all tests beside it."""

from __future__ import annotations


def test_profile_capture_and_replay_chain_by_pipes(stages, program):
    stages.target = "gfx942"
    replay = stages.chain(program("vector_add", "gfx942"))
    assert replay["kind"] == "replay"
    assert replay["matches_golden"] is True
    assert replay["timing"]["source"] == "software_gpu"
