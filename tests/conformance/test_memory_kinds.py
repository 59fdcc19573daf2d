"""Which memory a capture holds, and as what."""

from __future__ import annotations

import struct

from stages import addresses, region_at, word_in


def test_every_kind_of_memory_is_captured_as_what_it_is(stages, program):
    (capture,), printed = stages.capture_and_listen("target(", program("memory_kinds"))
    found = addresses(printed)
    kinds = {
        "device": {"device_coarse"},
        "pinned": {"host_pinned", "host_coarse"},
        "registered": {"host_registered"},
        "managed": {"managed"},
        "vmem": {"vmem"},
        "async": {"device_coarse", "vmem", "async_pool"},
        "global": {"code_object"},
    }
    befores = {
        "device": 0,
        "pinned": 10,
        "registered": 20,
        "managed": 30,
        "vmem": 40,
        "async": 50,
        "global": 50,
    }
    for name, allowed in kinds.items():
        region = region_at(capture, found[name])
        assert region["kind"] in allowed, name
        assert word_in(stages, region, "pre", found[name]) == befores[name], name
        assert word_in(stages, region, "post", found[name]) == befores[name] + 1, name
        on_host = name in ("pinned", "registered", "managed")
        assert (region["device_index"] is None) == on_host, name
        assert 0 in region["accessible_from"], name


def test_module_variables_are_listed_with_their_contents(stages, program):
    (capture,), _ = stages.capture_and_listen("target(", program("memory_kinds"))
    variables = {variable["symbol"]: variable for variable in capture["module_variables"]}
    states = {
        name: [struct.unpack("<i", stages.memory(variables[name][state]))[0] for state in ("pre", "post")]
        for name in ("constant_word", "global_word")
    }
    assert states == {"constant_word": [40, 40], "global_word": [50, 51]}
    assert variables["global_word"]["written_size_bytes"] == 1
    is_const = {name: variables[name]["is_const"] for name in states}
    assert is_const == {"constant_word": True, "global_word": False}
    assert variables["constant_word"]["code_object"] == capture["loaded_code_objects"][0]["code_object"]


def test_without_the_state_after_the_kernel(stages, program):
    (capture,), _ = stages.capture_and_listen("target(", program("memory_kinds"), options=("--no-post",))
    assert all(region["post"] is None and region["written"] is None for region in capture["regions"])
    assert all(region["pre"] is not None for region in capture["regions"])
    assert all(variable["post"] is None for variable in capture["module_variables"])
