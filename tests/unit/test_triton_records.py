"""How Triton specialized a kernel's arguments, as its versions say it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from kerncap_stages.inside.kerncap_triton.records import _describe_specialization

NAMES = ["x", "y", "n"]


@pytest.mark.parametrize(
    ("attributes", "described"),
    [
        ({(0,): [["tt.divisibility", 16]], (2,): None}, [["x", "tt.divisibility", "16"]]),
        (
            SimpleNamespace(  # Triton 3.2
                arg_properties={"tt.divisibility": [0, 1], "tt.equal_to": [2], "tt.pointer_range": []},
                property_values={"tt.divisibility": 16, "tt.equal_to": 1, "tt.pointer_range": 32},
            ),
            [["x", "tt.divisibility", "16"], ["y", "tt.divisibility", "16"], ["n", "tt.equal_to", "1"]],
        ),
        (SimpleNamespace(divisible_by_16=(1,)), [["y", "tt.divisibility", "16"]]),  # before
    ],
)
def test_a_specialization_is_described_in_one_way(attributes, described):
    assert _describe_specialization(NAMES, attributes) == described
