"""What a capture and a replay cost is told, bounded and shown."""

from __future__ import annotations

import re


def test_a_capture_says_what_it_took(stages, program):
    done = stages.run("capture", "--kernel", "target(", "--", program("many_dispatches"), 1, 1).must()
    assert re.search(
        r"target\(unsigned int\*\): \d+ regions?, .* changed; the program was held for", done.err
    )


def test_the_bound_on_memory_of_ours_is_kept_and_reported(stages, program):
    """More memory in the snapshot than the bound allows to be resident at any time."""
    bound_mib = 256
    words = ["--kernel", "target(", "--max-memory", bound_mib, "--", program("large"), 400]
    (digest,) = stages.run("capture", *words).must().digests
    cost = stages.show(digest)["cost"]
    assert cost["copied_size_bytes"] >= 400 << 20
    assert 10 << 20 < cost["extra_resident_bytes"] < bound_mib << 20


def test_progress_of_a_capture_is_shown_on_a_terminal(stages, program):
    text = stages.shown("capture", "--kernel", "target(", "--", program("large"), 64)
    assert re.search(r"[\d.]+ [MG]B/s", text), text


def test_progress_of_a_capture_and_lines_of_other_threads_and_processes_stay_whole(stages, program):
    text = stages.shown_raw("capture", "--kernel", "target(", "--", program("chatty"), 64)
    assert re.search(r"^capture: .* of .* MiB, [\d.]+ GB/s", text, re.MULTILINE), text
    for who in ("thread", "child"):
        numbers = [int(number) for number in re.findall(rf"^{who} (\d{{6}})\r?$", text, re.MULTILINE)]
        assert numbers == list(range(text.count(who)))
    assert "\x1b" not in text
    assert "\r" not in text.replace("\r\n", "")


def test_progress_of_a_replay_is_shown_on_a_terminal(stages, scaled, backend):
    runs = 3000 if backend == "hsa" else 100_000
    text = stages.shown("replay", scaled, "--iterations", runs)
    done = [
        int(number) for number in re.findall(rf"^run .* (\d+)/{runs}", text.replace("\r", "\n"), re.MULTILINE)
    ]
    assert done == sorted(done)
    assert 0 < done[-1] < runs
