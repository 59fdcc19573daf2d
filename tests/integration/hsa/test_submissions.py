"""How dispatches come to a queue: graphs, batches, full rings, long runs."""

from __future__ import annotations

import struct

import pytest
from stages import region_at


def test_a_node_in_the_middle_of_a_graph(stages, program):
    (capture,), printed = stages.capture_and_listen(
        "target(", program("graph_nodes"), 100, options=("--dispatch", 1)
    )
    assert "wrong 0" in printed
    assert capture["dispatch"]["index_of_kernel"] == 1
    (data,) = [region for region in capture["regions"] if region["written_size_bytes"]]
    before, after = (struct.unpack_from("<64I", stages.memory(data[state])) for state in ("pre", "post"))
    assert after == tuple((value * 5 + 2) % 2**32 for value in before)
    word = 1
    for launch in range(2):
        for node in range(100):
            if node == 50:
                if launch == 1:
                    assert before == (word,) * 64
                word = word * 5 + 2
            word = (word * 3 + node) % 2**32


@pytest.mark.parametrize("left_free", [60, 8, 4, 2, 0])
def test_a_submission_that_fills_the_ring(stages, program, left_free):
    """With four packets free the capture fits; where it does not, it is refused and the program goes on."""
    printed = stages.folder / "printed"
    code, app = program("words_kernels"), program("full_ring")
    options = ["--kernel", "target", "--count", 3, "--wait", 20, "--app-stdout", printed]
    done = stages.run("capture", *options, "--", app, code, left_free)
    assert "wrong 0" in printed.read_text(), done.err
    if done.code == 0:
        for round_, digest in enumerate(done.digests):
            capture = stages.show(digest)
            (data,) = [region for region in capture["regions"] if region["written_size_bytes"]]
            places = [struct.unpack_from("<2I", stages.memory(data[state]))[1] for state in ("pre", "post")]
            assert places == [round_, round_ + 1]
        assert len(done.digests) == 3
    else:
        assert left_free < 4
        done.must(6)
        assert "fills the whole queue" in done.err


def test_ten_thousand_dispatches_before_the_target(stages, program):
    (capture,), printed = stages.capture_and_listen("target(", program("many_dispatches"), 10000)
    assert "wrong 0" in printed
    assert capture["dispatch"]["index_in_process"] >= 10000
    (data,) = [region for region in capture["regions"] if region["written_size_bytes"]]
    assert struct.unpack_from("<2I", stages.memory(data["pre"])) == (10000, 0)
    assert struct.unpack_from("<2I", stages.memory(data["post"])) == (10000, 1)


def captures_in_a_row(stages, program, count):
    captures, printed = stages.capture_and_listen(
        "target(", program("many_dispatches"), 0, count, options=("--count", count)
    )
    assert "wrong 0" in printed
    assert [capture["dispatch"]["index_of_kernel"] for capture in captures] == list(range(count))
    for number in (0, count // 2, count - 1):
        (data,) = [region for region in captures[number]["regions"] if region["written_size_bytes"]]
        assert struct.unpack_from("<2I", stages.memory(data["pre"])) == (0, number)
        assert struct.unpack_from("<2I", stages.memory(data["post"])) == (0, number + 1)


def test_captures_one_right_after_another(stages, program):
    captures_in_a_row(stages, program, 20)


@pytest.mark.slow
def test_five_hundred_captures_in_one_run(stages, program):
    captures_in_a_row(stages, program, 500)


def test_dispatches_after_static_destructors(stages, program):
    captures, printed = stages.capture_and_listen(
        "target", program("late_dispatch"), program("words_kernels"), options=("--count", 2)
    )
    assert "word 2" in printed
    assert len(captures) == 2
    for number, capture in enumerate(captures):
        address = int.from_bytes(bytes.fromhex(capture["kernarg"])[:8], "little")
        region = region_at(capture, address)
        offset = address - region["base_address"]
        states = [
            struct.unpack_from("<I", stages.memory(region[state]), offset)[0] for state in ("pre", "post")
        ]
        assert states == [number, number + 1]
