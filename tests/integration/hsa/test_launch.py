"""What a capture says about the launch itself."""

from __future__ import annotations


def test_a_cooperative_launch_is_told_from_a_plain_one(stages, program):
    words = ["--kernel", "rotate_sums", "--kernel", "use_heap", "--", program("grid_sync")]
    done = stages.run("capture", *words).must()
    captures = [stages.show(digest) for digest in done.digests]
    is_cooperative = {
        capture["kernel"]["demangled_name"].partition("(")[0]: capture["launch"]["is_cooperative"]
        for capture in captures
    }
    assert is_cooperative == {"use_heap": False, "rotate_sums": True}
    # The runtime has one cooperative queue for a device, and destroys it itself.
    assert "the program ended" not in done.err


def test_a_program_with_a_cooperative_queue_ends_as_alone(stages, program):
    assert "the program ended" not in stages.run("profile", "--", program("grid_sync")).must().err


def test_the_cooperative_queue_of_a_device_is_one_for_all_its_users(stages, program):
    captures, printed = stages.capture_and_listen(
        "target", program("cooperative_queues"), program("words_kernels"), options=("--count", 3)
    )
    assert printed.split("\n")[:2] == ["one queue: yes", "word 3"]
    assert [capture["launch"]["is_cooperative"] for capture in captures] == [True] * 3
