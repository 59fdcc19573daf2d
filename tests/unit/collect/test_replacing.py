"""Which kernel of a code object a variant takes the place of."""

from __future__ import annotations

import pytest

from kerncap_stages.collect.replacing import Replacement

CAPTURED = "_ZL5shiftPf.intern.1111"
OTHER_UNIT = "_ZL5shiftPf.intern.2222"


@pytest.mark.parametrize(
    ("captured", "symbols", "chosen"),
    [
        ("captured.co", [OTHER_UNIT, CAPTURED], 1),
        ("captured.co", [OTHER_UNIT], None),  # the same name in another unit is another kernel
        (None, [OTHER_UNIT, CAPTURED], 1),
        (None, ["scale", OTHER_UNIT], 1),  # a rebuilt program
        (None, [OTHER_UNIT, "_ZL5shiftPf.intern.3333"], None),
    ],
)
def test_one_kernel_of_a_name_is_chosen(captured, symbols, chosen):
    replacement = Replacement(CAPTURED, "variant.co", CAPTURED, captured)
    assert replacement.choose(symbols) == chosen
