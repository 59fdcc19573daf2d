"""What a program does while we are in it: it comes out as ever, whether a capture is made or not."""

from __future__ import annotations

import pytest

MODES = ("global", "local", "relaxed")


def run(kc, *words, dispatch=1):
    """Captures `target` with the program's own output beside: what came of it, and what the program said."""
    options = ("--kernel", "target", "--dispatch", dispatch, "--wait", 5, "--app-stdout", "said")
    done = kc.run("kc-capture", *options, "--", *words)
    assert "after the capture" not in done.err  # that it ended as it did
    return done, (kc.folder / "said").read_text()


@pytest.mark.parametrize("mode", MODES)
def test_a_graph_that_another_thread_records_is_whole(kc, built, mode):
    done, said = run(kc, built["recordings"], "thread", "other", mode)
    assert said == "ok\n", done.err
    assert done.code == 0, done.err


@pytest.mark.parametrize("stream", ["blocking", "own"])
@pytest.mark.parametrize("mode", MODES)
def test_a_graph_that_bars_the_default_stream_is_whole_and_the_capture_refused(kc, built, stream, mode):
    done, said = run(kc, built["recordings"], "thread", stream, mode)
    assert said == "ok\n", done.err
    assert done.code == 6, done.err
    assert "a CUDA graph is being recorded" in done.err


@pytest.mark.parametrize("mode", MODES)
def test_a_graph_that_is_recorded_while_a_state_is_sent_is_whole(kc, built, mode):
    done, said = run(kc, built["recordings"], "behind", 1024, mode)
    assert said == "ok\n", done.err
    assert done.code == 0, done.err


@pytest.mark.parametrize("kibibytes", [64, 128])
def test_a_thread_with_a_small_stack_can_be_captured(kc, built, kibibytes):
    done, said = run(kc, built["scarce"], "stack", kibibytes)
    assert said == "ok\n", done.err
    assert done.code == 0, done.err


def test_a_thread_can_be_cancelled_between_launches_that_are_captured(kc, built):
    options = ("--kernel", "target", "--count", 500, "--app-stdout", "said")
    done = kc.ok("kc-capture", *options, "--", built["scarce"], "cancelled", 30)
    assert (kc.folder / "said").read_text() == "ok\n", done.err
    assert "after the capture" not in done.err
    assert done.out.split()


def test_a_program_that_may_have_no_more_memory_goes_on(kc, built):
    _, said = run(kc, built["scarce"], "memory", 1)
    assert said == "ok\n"


@pytest.mark.parametrize("mebibytes", [1, 1024])
@pytest.mark.parametrize("how", ["fork", "_Fork", "clone"])
def test_a_child_that_is_forked_behind_a_capture_ends_as_it_wants(kc, built, how, mebibytes):
    done, said = run(kc, built["scarce"], how, mebibytes)
    assert said == "ok\n", done.err
    assert done.code == 0, done.err


def test_another_threads_own_stream_that_waits_for_the_program_is_not_waited_for(kc, built):
    done, said = run(kc, built["per_thread_stream"])
    assert said == "ok\n", done.err
    assert done.code != 0, done.err
    assert "did not end in time" in done.err


def test_a_graph_that_copies_from_and_to_ordinary_memory_is_refused(kc, built):
    done, said = run(kc, built["graph_effects"], "both_ways")
    assert said == "ok\n", done.err
    assert done.code == 6, done.err
    assert "ordinary memory of the host" in done.err


def test_what_a_thread_loads_while_a_graph_is_gone_through_is_not_lost(kc, built):
    done, said = run(kc, built["graph_effects"], "loader")
    assert said == "ok\n", done.err
    assert done.code == 0, done.err


@pytest.mark.parametrize(
    ("program", "memory"),
    [
        *(("graph_host_words", memory) for memory in ("pinned", "managed", "ticks", "protected")),
        *(("graph_host_pools", memory) for memory in ("pool", "managed_pool", "mapped", "device_only")),
    ],
)
def test_what_a_thread_counts_beside_a_kernel_of_a_graph_is_not_lost(kc, built, program, memory):
    done, said = run(kc, built[program], memory)
    assert said == "ok\n", done.err
    assert done.code == 0, done.err
    assert "pinned memory changed" not in done.err


@pytest.mark.parametrize(
    ("program", "memory"),
    [
        ("graph_host_words", "pointer"),
        ("graph_host_pools", "behind_pool"),
        ("graph_host_pools", "behind_mapped"),
    ],
)
def test_pinned_memory_that_only_a_pointer_in_memory_leads_to_is_warned_of(kc, built, program, memory):
    done, said = run(kc, built[program], memory)
    assert said == "ok\n", done.err
    assert "pinned memory changed" in done.err


def test_a_graph_that_waits_for_the_program_is_let_go(kc, built):
    done, said = run(kc, built["graph_effects"], "waits")
    assert said == "ok\n", done.err
    assert done.code != 0, done.err
    assert "did not end in time" in done.err


def test_a_kernel_that_waits_for_a_later_launch_ends_while_a_state_is_given_back(kc, built):
    done, said = run(kc, built["later_launch"], dispatch=0)
    assert said == "ok\n", done.err
    assert done.code == 0, done.err


@pytest.mark.parametrize("work", ["streams", "sets", "modules", "recordings"])
def test_what_other_threads_do_beside_a_capture(kc, built, work):
    done = kc.ok("kc-capture", "--kernel", "target", "--count", 12, "--", built["churn"], work)
    assert "warning" not in done.err, done.err
    assert "ok" in done.err.split()
    captures = [kc.show(digest) for digest in done.out.split()]
    # Their bytes are no output of the kernel, which writes 128 words.
    assert all(sum(each["written_size_bytes"] for each in capture["regions"]) <= 512 for capture in captures)


def test_what_another_process_writes_beside_a_kernel_of_a_graph_is_not_lost(kc, built):
    done, said = run(kc, built["shared_graph"])
    assert said == "ok\n", done.err
    assert done.code == 0, done.err
    assert kc.show(done.digest)["dispatch"]["from_graph"] is True


@pytest.mark.parametrize("how", ["green", "detach"])
def test_a_state_is_sent_before_its_context_goes(kc, built, how):
    done = kc.ok("kc-capture", "--kernel", "target", "--", built["given_up"], how)
    assert "warning" not in done.err, done.err
    assert kc.show(kc.ok("kc-replay", done.digest).digest)["matches_golden"] is True
