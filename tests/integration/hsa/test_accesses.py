"""The software GPU tells which bytes of the captured memory a kernel reads and writes, each byte once."""

from __future__ import annotations

import pytest

N = 1000
# Bytes read before they were written, and bytes written.
EXPECTED = {
    "add": (8 * N, 4 * N),
    "gather": (4 * N + 4 * N // 10, 4 * N),
    "put_zeros": (0, 4 * N),
    "count": (4, 4),
    "write_first": (0, 4 * N),
    "bytes": (N, N),
    "broadcast": (4, 4 * N),
}
WAVES = 16


@pytest.mark.parametrize("kernel", EXPECTED)
def test_bytes_are_those_that_are_counted_by_hand(stages, program, kernel):
    (capture,) = stages.capture(kernel, program("accesses"))
    done = stages.replay(capture, "--warmup", 1, "--iterations", 3).must()
    work = done.manifest["timing"]["work"]
    assert (work["read_size_bytes"], work["written_size_bytes"]) == EXPECTED[kernel]
    # Scalar loads of arguments, and at least one access of each wave.
    assert WAVES <= work["memory_instructions"] < done.manifest["timing"]["instructions"]
    changed = done.manifest["floor"]["changed_size_bytes"]
    assert changed <= EXPECTED[kernel][1]
    assert (changed == 0) == (kernel == "put_zeros")
    assert done.manifest["floor"]["least_ns"] is None
    assert ("must be written" in done.err) == (changed > 0)


def test_a_variant_is_beside_the_captured_kernel(stages, program, variant):
    (capture,) = stages.capture("add", program("accesses"))
    done = stages.replay(capture, "--compare", variant("accesses", "TWICE"), "--iterations", 2).must()
    read, written = EXPECTED["add"]
    before, after = done.manifest["comparison"]["baseline"]["work"], done.manifest["timing"]["work"]
    assert (before["read_size_bytes"], before["written_size_bytes"]) == (read, written)
    assert (after["read_size_bytes"], after["written_size_bytes"]) == (6 * N, written)
    assert after["memory_instructions"] > before["memory_instructions"]
    assert (
        "captured memory, variant / baseline: 5.86 KiB / 7.81 KiB read, 3.91 KiB / 3.91 KiB written"
        in done.err
    )


def test_a_kernel_that_is_launched_otherwise_has_no_floor(stages, program):
    (capture,) = stages.capture("add", program("accesses"))
    made = stages.replay(capture, "--block", "128,1,1").must().manifest
    assert made["floor"] is None
    assert made["timing"]["work"]["read_size_bytes"] == 8 * N
