"""What a capture refuses on CUDA: each by name, and the program comes out as ever."""

from __future__ import annotations

import pytest

GRAPHS = {
    "child": "a child graph",
    "host": "a host function",
    "conditional": "a conditional node",
    "memory": "memory that it allocates",
    "memory_behind": "allocates memory of its own",
}


def refused(kc, word, *program):
    done = kc.run("kc-capture", "--kernel", "target", "--", *program)
    assert word in done.err
    assert done.code == 6, done.err
    assert "ok" in done.err.split()  # the program says so when all its results are right


@pytest.mark.parametrize(("graph", "word"), GRAPHS.items(), ids=list(GRAPHS))
def test_a_kernel_in_a_graph_that_cannot_be_gone_through_twice(kc, built, graph, word):
    refused(kc, word, built["odd_graphs"], graph)


@pytest.mark.parametrize(
    ("before", "word"),
    [
        ("launches", "launches others on the device"),
        ("heap", "the device's own heap"),
    ],
)
def test_a_kernel_in_a_graph_behind_what_cannot_be_undone(kc, built, before, word):
    refused(kc, word, built["odd_ancestors"], before)


def test_a_kernel_in_a_graph_behind_one_that_prints_is_warned_of(kc, built):
    done = kc.ok("kc-capture", "--kernel", "target", "--dispatch", 1, "--", built["odd_ancestors"], "prints")
    assert "what they print then comes twice" in done.err
    assert [line for line in done.err.split("\n") if line.startswith("found ")] == [
        "found 0",
        "found 7",
        "found 7",
        "found 28",
    ]


def test_a_kernel_in_a_graph_that_works_on_memory_of_another_process(kc, built):
    refused(kc, "memory which other processes share", built["shared_graph"], "given")


@pytest.mark.usefixtures("two_gpus")
@pytest.mark.parametrize("wanted_on", [0, 1])
def test_a_kernel_in_a_graph_that_works_on_two_gpus(kc, built, wanted_on):
    refused(kc, "works on another GPU, too", built["two_gpu_graph"], wanted_on)


def test_a_kernel_in_a_graph_whose_child_graph_was_exchanged(kc, built):
    done = kc.run("kc-capture", "--kernel", "target", "--dispatch", 1, "--", built["child_update"])
    assert "in a CUDA graph that was changed" in done.err
    assert done.code == 6, done.err
    assert "ok" in done.err.split()


@pytest.mark.usefixtures("much_memory")
def test_a_kernel_in_a_graph_without_room_for_two_copies_of_the_state(kc, built):
    refused(kc, "of free device memory to be captured, and there is less", built["odd_graphs"], "large")


def test_a_program_that_another_tool_is_injected_into(kc, built, monkeypatch):
    monkeypatch.setenv("CUDA_INJECTION64_PATH", "/opt/tool/libtool.so")
    for words in (("kc-capture", "--kernel", "vector_add"), ("kc-profile",)):
        done = kc.run(*words, "--", built["vector_add"])
        assert done.code == 2, done.err
        assert "CUDA_INJECTION64_PATH already names another tool: /opt/tool/libtool.so" in done.err
        assert "env -u CUDA_INJECTION64_PATH" in done.err


def test_a_program_that_subscribed_to_cupti_first(kc, built):
    for words in (("kc-capture", "--kernel", "target"), ("kc-profile",)):
        done = kc.run(*words, "--", built["subscriber"], "before")
        assert done.code == 6, done.err
        assert "subscribed: 0" in done.err
        assert "CUPTI takes one subscriber in a process, and this program, or a tool in it," in done.err
        assert "ok" in done.err.split()


def test_a_program_that_subscribes_to_cupti_behind_us_is_captured(kc, built):
    """What it asked CUPTI for it does not get, and goes on."""
    done = kc.ok("kc-capture", "--kernel", "target", "--", built["subscriber"], "behind")
    assert "subscribed: " in done.err
    assert "ok" in done.err.split()


def test_a_launch_by_the_calls_of_cuda_3(kc, built):
    refused(kc, "cuLaunchGrid", built["old_launch"])


@pytest.mark.parametrize(("program", "kernel"), [("device_launch", "inner"), ("device_graph", "target")])
def test_a_kernel_that_only_the_device_launches_is_said_not_to_be_seen(kc, built, program, kernel):
    done = kc.run("kc-capture", "--kernel", kernel, "--", built[program])
    assert done.code == 1, done.err
    assert "kernels and graphs that other kernels launch on the device" in done.err
    assert ("a CUDA graph that kernels can launch on the device" in done.err) == (program == "device_graph")
    assert "ok" in done.err.split()
