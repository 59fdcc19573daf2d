"""How dispatches come to the device: graphs, long runs, many captures."""

from __future__ import annotations

import struct

import pytest


@pytest.mark.parametrize(
    ("kernel", "dispatch", "node"), [("target(", 1, 50), ("step(", 0, 0), ("step(", 199, 100)]
)
def test_a_node_of_a_graph(stages, program, kernel, dispatch, node):
    """In the middle, first and last of a chain of a hundred steps with the target before step 50."""
    (capture,), printed = stages.capture_and_listen(
        kernel, program("graph_nodes"), 100, options=("--dispatch", dispatch)
    )
    assert "wrong 0" in printed
    assert capture["dispatch"]["index_of_kernel"] == dispatch
    (data,) = [region for region in capture["regions"] if region["written_size_bytes"]]
    before, after = (struct.unpack_from("<64I", stages.memory(data[state])) for state in ("pre", "post"))
    launch = dispatch if kernel == "target(" else dispatch // 100
    chain = [(3, step) for step in range(50)] + [(5, 2)] + [(3, step) for step in range(50, 100)]
    words = [1]
    for factor, term in chain * (launch + 1):
        words.append((words[-1] * factor + term) % 2**32)
    at = launch * len(chain) + node
    assert (before, after) == ((words[at],) * 64, (words[at + 1],) * 64)
    assert stages.replay("@capture").must().manifest["matches_golden"] is True


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
