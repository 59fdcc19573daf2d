"""How the scalar arguments of a case are shown."""

from __future__ import annotations

import struct

import pytest

from kerncap_stages.project.cases import _format_scalar


@pytest.mark.parametrize(
    ("content", "type_text", "shown"),
    [
        (struct.pack("<f", 0.1), "float", "0.1"),
        (struct.pack("<d", -1e-30), "double", "-1e-30"),
        (struct.pack("<e", 0.5), "_Float16", "0.5"),
        (struct.pack("<i", -3), "int", "-3"),
        (struct.pack("<I", 3), "unsigned int", "3"),
        (struct.pack("<I", 1 << 30), "unsigned int", "0x40000000"),
        (struct.pack("<f", 0.1), "", "0x3dcccccd"),
        (struct.pack("<2f", 0.1, 0.2), "float2", "0x3e4ccccd3dcccccd"),
        (struct.pack("<q", 5), "float", "5"),
    ],
)
def test_scalars_are_shown_as_their_types_say(content, type_text, shown):
    assert _format_scalar(content, type_text) == shown
