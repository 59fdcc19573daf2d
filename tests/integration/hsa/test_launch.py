"""What a capture says about the launch itself."""

from __future__ import annotations


def test_a_cooperative_launch_is_told_from_a_plain_one(stages, program):
    words = ["--kernel", "rotate_sums", "--kernel", "use_heap", "--", program("grid_sync")]
    captures = [stages.show(digest) for digest in stages.run("capture", *words).must().digests]
    is_cooperative = {
        capture["kernel"]["demangled_name"].partition("(")[0]: capture["launch"]["is_cooperative"]
        for capture in captures
    }
    assert is_cooperative == {"use_heap": False, "rotate_sums": True}
