"""What only CUDA has: clusters, IPC, textures and so on. What all back ends must hold: tests/conformance."""

from __future__ import annotations

import struct

import pytest

from kerncap_stages.store import Store

EXACT = [
    ("vector_add", "vector_add", 4),
    ("busy_streams", "advance", 700),
    ("cluster", "grid_wide", 1),
    ("cluster", "neighbours", 1),
    ("advised_memory", "touch", 1),
    ("host_memory", "add_all", 2),
    ("many_allocations", "walk_all", 3),
    ("pool_reuse", "accumulate", 11),
    ("imported_memory", "add_imported", 1),
    ("several_contexts", "in_first", 1),
    ("several_contexts", "in_second", 1),
    ("green_context", "in_part", 1),
    ("recursion", "deep", 0),
    ("prints", "speak", 0),
    ("launch_attributes", "dependent", 2),
    ("launch_attributes", "wide", 2),
    ("dependent_graph", "first", 1),
    ("dependent_graph", "second", 1),
    ("graph_order", "accumulate", 2),
    ("huge_grid", "count_blocks", 0),
    ("texture", "stride_on", 0),
    ("beyond_the_end", "overrun", 1),
    ("large_parameters", "look_up_all", 1),
    ("other_module", "add_table", 1),
]
# Whose kernel writes memory of another process: that it wrote that itself, nobody can know.
SHARED = {"imported_memory"}


@pytest.mark.parametrize(("program", "kernel", "dispatch"), EXACT)
def test_replay_repeats_what_the_program_saw_and_the_program_is_not_changed(
    kc, built, program, kernel, dispatch
):
    done = kc.ok("kc-capture", "--kernel", kernel, "--dispatch", dispatch, "--", built[program])
    # Programs end with 1 when a result of theirs is wrong; kc-capture would warn of it.
    warnings = [line for line in done.err.splitlines() if "warning" in line]
    is_of_sharing = ["shares with other processes" in line for line in warnings]
    assert is_of_sharing == [True] * (program in SHARED), warnings
    assert "ok" in done.err.split()
    capture = done.digest
    shown = kc.show(capture)
    assert shown["dispatch"]["index_of_kernel"] == dispatch
    assert sum(region["written_size_bytes"] or 0 for region in shown["regions"]) > 0
    once = kc.show(kc.ok("kc-replay", capture).digest)
    assert once["outcome"] == "completed"
    assert once["matches_golden"] is True
    # The write set is put back between runs: in-place kernels give the same each time.
    again = kc.show(kc.ok("kc-replay", capture, "-n", 10, "--warmup", 2, "--flush-cache").digest)
    assert again["matches_golden"] is True
    assert len(again["timing"]["samples_ns"]) == 10


def test_a_kernel_of_a_graph_sees_what_it_waits_for_and_nothing_else(kc, built):
    capture = kc.show(kc.capture("accumulate", built["graph_order"], dispatch=2))
    words = kernel_words(kc, capture)
    # `inside` has added 1 at the end of each of the two launches before.
    assert [words(argument, "pre") for argument in (0, 1)] == [7 + 1 + 14 + 1, 3 * 7]
    assert words(0, "post") == 7 + 1 + 14 + 1 + 21


@pytest.mark.parametrize(("dispatch", "before", "after"), [(0, 0, 1), (1, 1, 11)])
def test_launches_that_the_driver_refuses_are_no_dispatches(kc, built, dispatch, before, after):
    capture = kc.show(kc.capture("target", built["failed_launches"], dispatch=dispatch))
    words = kernel_words(kc, capture)
    assert (words(0, "pre"), words(0, "post")) == (before, after)


@pytest.mark.parametrize("dispatch", [0, 1])
def test_a_kernel_is_captured_with_the_code_of_its_own_module(kc, built, dispatch):
    digest = kc.capture("twin", built["twins"], dispatch=dispatch)
    assert kc.show(kc.ok("kc-replay", digest).digest)["matches_golden"] is True


def test_memory_that_a_call_failed_to_free_is_in_the_capture(kc, built):
    capture = kc.show(kc.capture("target", built["failed_free"]))
    words = kernel_words(kc, capture)
    assert (words(0, "pre"), words(0, "post")) == (0, 3)


@pytest.mark.parametrize("where", ["elsewhere", "shared"])
def test_what_a_thread_of_the_program_writes_meanwhile_is_no_output(kc, built, where):
    capture = kc.capture("target", built["host_writer"], where, dispatch=1)
    pinned = [region for region in kc.show(capture)["regions"] if region["kind"] == "host_pinned"]
    assert any(region["written_size_bytes"] for region in pinned)
    replay = kc.ok("kc-replay", capture)
    assert "changed by the program itself" in replay.err
    assert (" bytes of region" in replay.err) == (where == "shared")
    assert kc.show(replay.digest)["matches_golden"] is True
    judged = kc.run("kc-validate", capture)
    assert judged.code == 0, judged.err
    assert "changed by the program itself" in judged.err


@pytest.mark.parametrize(
    ("dispatch", "seen"),
    [
        (0, [0, 1, 0, 0]),
        (1, [1, 10, 0, 0]),
        (2, [11, 10, 3, 1000]),
        (3, [1024, 100, 0, 0]),
    ],
)
def test_a_graph_that_was_updated_is_captured_as_it_is_now(kc, built, dispatch, seen):
    digest = kc.capture("accumulate", built["updated_graph"], dispatch=dispatch)
    capture = kc.show(digest)
    words = kernel_words(kc, capture)
    found = [words(argument, "pre") for argument in range(4)]
    found[2] &= 0xFF
    assert found == seen
    assert words(0, "post") == sum(seen)
    assert kc.show(kc.ok("kc-replay", digest).digest)["matches_golden"] is True


@pytest.mark.parametrize("mode", ["events", "events_gone"])
def test_a_graph_of_which_an_event_was_exchanged_is_captured(kc, built, mode):
    digest = kc.capture("target", built["odd_ancestors"], mode, dispatch=1)
    words = kernel_words(kc, kc.show(digest))
    assert (words(0, "pre"), words(0, "post")) == (7, 28)


@pytest.mark.parametrize("dispatch", [4, 5])
def test_a_graph_of_which_a_node_was_switched_off_or_on_is_refused(kc, built, dispatch):
    done = kc.run(
        "kc-capture", "--kernel", "accumulate", "--dispatch", dispatch, "--", built["updated_graph"]
    )
    assert done.code == 6, done.err
    assert "switched" in done.err


def kernel_words(kc, capture):
    """Read the first word of the memory that the n-th argument, a pointer, leads to: before or after."""

    def read(argument, state):
        address = struct.unpack_from("<Q", bytes.fromhex(capture["kernarg"]), 8 * argument)[0]
        region = next(
            each for each in capture["regions"] if 0 <= address - each["base_address"] < each["size_bytes"]
        )
        memory = Store.open(kc.store).read_memory(region[state].removeprefix("memory:"))
        return struct.unpack_from("<i", memory, address - region["base_address"])[0]

    return read


def test_a_copy_that_is_under_way_ends_before_the_state_is_taken(kc, built):
    done = kc.ok("kc-capture", "--kernel", "target", "--count", 6, "--", built["pageable_copies"])
    captures = [kc.show(digest) for digest in done.out.split()]
    written = [sum(region["written_size_bytes"] for region in each["regions"]) for each in captures]
    assert written == [64] * 6


def test_memory_of_the_devices_own_heap_is_said_to_be_missing(kc, built):
    done = kc.ok("kc-capture", "--kernel", "follow", "--", built["device_heap"])
    assert "the device's own heap" in done.err


@pytest.mark.parametrize("kernel", ["alone", "in_graph"])
def test_ordinary_memory_that_the_gpu_reaches_by_itself_is_said_to_be_missing(kc, built, kernel):
    done = kc.run("kc-capture", "--kernel", kernel, "--", built["ordinary_memory"])
    reaches = "reaches 1" in done.err
    assert reaches or "reaches 0" in done.err
    assert ("ordinary memory of the host" in done.err) is reaches
    # What a graph did twice there could not be undone.
    assert done.code == (6 if reaches and kernel == "in_graph" else 0)


def test_kernels_of_two_contexts_are_captured_in_one_run(kc, built):
    done = kc.ok(
        "kc-capture", "--kernel", "in_first", "--kernel", "in_second", "--", built["several_contexts"]
    )
    captures = done.out.split()
    assert len(captures) == 2
    for capture in captures:
        assert kc.show(kc.ok("kc-replay", capture).digest)["matches_golden"] is True


@pytest.mark.parametrize("variables", ["unknown", "asked", "streams"])
def test_a_kernel_of_a_library_is_captured_in_whichever_context(kc, built, variables):
    """Twice in each of two, which have modules and variables of their own."""
    options = ("--kernel", "target", "--dispatch", 2, "--count", 4)
    done = kc.ok("kc-capture", *options, "--", built["library_kernel"], variables)
    assert "warning" not in done.err, done.err
    captures = done.out.split()
    assert len(captures) == 4
    for capture in captures:
        assert kc.show(kc.ok("kc-replay", capture).digest)["matches_golden"] is True


def test_memory_of_another_process_is_captured_with_the_kernel(kc, built):
    capture = kc.show(kc.capture("add_shared", built["ipc"]))
    kinds = {region["kind"]: region for region in capture["regions"]}
    assert kinds["ipc"]["written_size_bytes"] > 0
    assert kc.show(kc.ok("kc-replay", "@capture").digest)["matches_golden"] is True


@pytest.mark.usefixtures("two_gpus")
def test_a_kernel_on_the_second_gpu_is_captured_and_replayed_there(kc, built):
    capture = kc.show(kc.capture("on_second", built["two_gpus"], dispatch=1))
    assert capture["dispatch"]["device_index"] == 1
    assert kc.show(kc.ok("kc-replay", "@capture").digest)["matches_golden"] is True


@pytest.mark.usefixtures("two_gpus")
def test_a_kernel_that_runs_on_both_gpus_is_captured_on_each(kc, built):
    done = kc.ok("kc-capture", "--kernel", "on_each", "--dispatch", 2, "--count", 4, "--", built["two_gpus"])
    captures = [(digest, kc.show(digest)) for digest in done.out.split()]
    assert [capture["dispatch"]["device_index"] for _, capture in captures] == [0, 1, 0, 1]
    for digest, _ in captures:
        assert kc.show(kc.ok("kc-replay", digest).digest)["matches_golden"] is True


@pytest.mark.usefixtures("two_gpus")
def test_another_gpus_memory_that_an_argument_leads_to_is_captured_with_the_kernel(kc, built):
    done = with_peers(kc, "across", built)
    capture = kc.show(done.digest)
    assert {region["device_index"] for region in capture["regions"]} >= {0, 1}
    assert "GPU 1's memory" not in done.err
    assert kc.show(kc.ok("kc-replay", "@capture").digest)["matches_golden"] is True


@pytest.mark.usefixtures("two_gpus")
def test_another_gpus_memory_that_is_left_out_is_named(kc, built):
    done = with_peers(kc, "behind", built)
    assert "512 bytes of GPU 1's memory" in done.err


def with_peers(kc, kernel, built):
    done = kc.ok("kc-capture", "--kernel", kernel, "--app-stdout", "printed", "--", built["two_gpus"])
    if "peers" not in (kc.folder / "printed").read_text():
        pytest.skip("the GPUs cannot reach each other's memory")
    return done


@pytest.mark.parametrize(
    ("program", "kernel", "word"),
    [
        ("texture", "sample", "texture"),
        ("texture", "look_up", "texture"),
        ("surface", "draw", "surface"),
        ("device_heap", "allocate", "heap"),
        ("device_launch", "outer", "device-side launches"),
        ("graph_order", "inside", "child graph"),
        ("conditional_graph", "in_body", "body of a conditional node"),
        ("unknown_memory", "add_one", "made by no call"),
    ],
)
def test_what_cannot_be_captured_is_refused_by_name(kc, built, program, kernel, word):
    done = kc.run("kc-capture", "--kernel", kernel, "--", built[program])
    assert done.code == 6, done.err
    assert word in done.err
    assert "ok" in done.err.split()


LAUNCHES = {
    "on_own_stream": 1,
    "together": 2,
    "extended": 3,
    "compiled": 4,
    "linked": 5,
    "of_library": 6,
    "in_a_buffer": 7,
}


@pytest.mark.parametrize(("kernel", "added"), LAUNCHES.items(), ids=list(LAUNCHES))
def test_a_kernel_is_seen_whichever_way_it_is_launched(kc, built, kernel, added):
    """On the thread's default stream, PTX that the driver compiles or links, of a library, with a buffer."""
    done = kc.ok("kc-capture", "--kernel", kernel, "--", built["launch_ways"])
    assert "ok" in done.err.split()
    capture = kc.show(done.digest)
    assert capture["launch"]["is_cooperative"] is (kernel == "together")
    (data,) = [region for region in capture["regions"] if region["written_size_bytes"]]
    store = Store.open(kc.store)
    before, after = (
        struct.unpack_from("<I", store.read_memory(data[state].removeprefix("memory:")))[0]
        for state in ("pre", "post")
    )
    assert (before, after - before) == (sum(range(added)), added)
    assert kc.show(kc.ok("kc-replay", done.digest).digest)["matches_golden"] is True
