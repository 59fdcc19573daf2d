"""The call in Python of a dispatch is found by what it passed: a launch has no number there."""

from __future__ import annotations

import json
import struct
from typing import Any

import manifest_examples

from kerncap_stages.collect.triton_launches import find_call, read_calls
from kerncap_stages.inside.kerncap_triton.files import LAUNCH_PREFIX
from kerncap_stages.manifests.kernel import KernargSlot

CODE = manifest_examples.digest("code")
SLOTS = tuple(
    KernargSlot(offset_bytes=at, size_bytes=size, value_kind=kind)
    for at, size, kind in (
        (0, 8, "global_buffer"),
        (8, 4, "by_value"),
        (12, 4, "by_value"),
        (16, 8, "hidden_none"),
    )
)


def kernarg(address: int, count: int, factor: float) -> bytes:
    return struct.pack("<Qif8x", address, count, factor)


def call(address: int, count: int, factor: str, **changes: Any) -> dict[str, Any]:
    tensor = {"address": address, "dtype": "float32", "shape": [8]}
    return {
        "code_object": CODE,
        "grid_programs": [2, 1, 1],
        "arguments": [
            {"name": "x", "type_name": "tensor", "tensor": tensor},
            {"name": "n", "type_name": "int", "text": str(count)},
            {"name": "factor", "type_name": "float", "text": factor},
        ],
    } | changes


def find(*calls: dict[str, Any], passed: bytes, grid: tuple[int, int, int] = (2, 1, 1)) -> list[str] | None:
    found = find_call(calls, CODE, grid, SLOTS, passed)
    return None if found is None else [each.text for each in found.arguments]


def test_a_call_is_found_by_its_addresses_and_values():
    calls = [call(64, 3, "1.5"), call(64, -4, "1.5"), call(64, 3, "0.1"), call(128, 3, "1.5")]
    assert find(*calls, passed=kernarg(64, -4, 1.5)) == ["", "-4", "1.5"]
    assert find(*calls, passed=kernarg(64, 3, 0.1)) == ["", "3", "0.1"]
    assert find(*calls, passed=kernarg(192, 3, 1.5)) is None
    assert find(calls[0], passed=kernarg(64, 3, 1.5), grid=(3, 1, 1)) is None
    assert find(call(64, 3, "1.5", code_object="0" * 64), passed=kernarg(64, 3, 1.5)) is None


def test_what_the_program_wrote_there_is_no_call():
    passed = kernarg(64, 3, 1.5)
    odd = [{}, call(64, 3, "one"), call(64, 3, "1.5", arguments=7), call(64, 3, "1.5", grid_programs=None)]
    assert find(*odd, passed=passed) is None
    assert find(*odd, call(64, 3, "1.5"), passed=passed) == ["", "3", "1.5"]


def test_the_latest_call_of_a_process_comes_first(tmp_path):
    for number in (9, 10, 11):
        (tmp_path / f"{LAUNCH_PREFIX}7-{number}.json").write_text(json.dumps({"number": number}))
    (tmp_path / f"{LAUNCH_PREFIX}71-0.json").write_text(json.dumps({"number": 0}))
    (tmp_path / f"{LAUNCH_PREFIX}7-12.json").write_text("{")
    assert [each["number"] for each in read_calls(tmp_path, 7)] == [11, 10, 9]
