"""What is said of a damaged metadata note: a sentence, not the text of a Python error."""

from __future__ import annotations

import msgpack
import pytest

from kerncap_stages.code.amd_metadata import read_kernels, unpack_note
from kerncap_stages.errors import ArtifactError

ARGUMENT = {".offset": 0, ".size": 8, ".value_kind": "global_buffer", ".name": "out"}
KERNEL = {".symbol": "scale.kd", ".args": [ARGUMENT], ".kernarg_segment_size": 8, ".wavefront_size": 64}


def read(note):
    return dict(read_kernels(unpack_note(msgpack.packb(note)), {}))


def without(values, key):
    return {name: value for name, value in values.items() if name != key}


def test_a_whole_note_is_read():
    (kernel,) = read({"amdhsa.kernels": [KERNEL | {".reqd_workgroup_size": [64, 2, 1]}]}).values()
    assert (kernel.symbol, kernel.kernarg_size_bytes) == ("scale", 8)
    assert kernel.required_work_group_size == (64, 2, 1)
    assert kernel.slots[0].name == "out"
    assert read({}) == {}
    assert unpack_note(msgpack.packb([1, 2])) is None


@pytest.mark.parametrize(
    ("kernel", "told"),
    [
        (without(KERNEL, ".symbol"), "its metadata lacks .symbol"),
        (KERNEL | {".symbol": 7}, ".symbol in its metadata is not a string"),
        (KERNEL | {".args": [without(ARGUMENT, ".size")]}, "its metadata lacks .size"),
        (KERNEL | {".args": [without(ARGUMENT, ".offset")]}, "its metadata lacks .offset"),
        (KERNEL | {".args": [without(ARGUMENT, ".value_kind")]}, "its metadata lacks .value_kind"),
        (
            KERNEL | {".args": [ARGUMENT | {".value_kind": "Wrong"}]},
            ".value_kind in its metadata is not a kind",
        ),
        (KERNEL | {".args": [ARGUMENT | {".name": 5}]}, ".name in its metadata is not a string"),
        (KERNEL | {".args": [ARGUMENT | {".size": {}}]}, ".size in its metadata is not a number"),
        (KERNEL | {".args": [ARGUMENT | {".offset": -1}]}, ".offset in its metadata is -1, which is out of"),
        (KERNEL | {".args": 3}, ".args in its metadata is not a list of maps"),
        (KERNEL | {".sgpr_count": "many"}, ".sgpr_count in its metadata is not a number"),
        (
            KERNEL | {".reqd_workgroup_size": [1]},
            ".reqd_workgroup_size in its metadata is not a list of three",
        ),
        (KERNEL | {".language": []}, ".language in its metadata is not a string"),
        ([], "amdhsa.kernels in its metadata is not a list of maps"),
    ],
)
def test_a_wrong_value_is_told_in_a_sentence(kernel, told):
    with pytest.raises(ArtifactError) as refused:
        read({"amdhsa.kernels": [kernel]})
    assert str(refused.value).startswith(f"damaged code object: {told}")
    assert "pydantic" not in str(refused.value)
    assert refused.value.hint == "compile it again"


@pytest.mark.parametrize("raw", [b"", b"\x81", b"\x81\x80\x01", b"\xc1", b"\x01\x02", b"\x81\xa1\xff\x01"])
def test_what_is_no_messagepack_is_told_in_a_sentence(raw):
    """Among them a map as a key of a map, and a text that is not UTF-8."""
    with pytest.raises(ArtifactError, match=r"^damaged code object: its metadata is not valid MessagePack$"):
        unpack_note(raw)
