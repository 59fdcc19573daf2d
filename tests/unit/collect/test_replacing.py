"""Which kernel of a code object a variant takes the place of."""

from __future__ import annotations

import pytest

from kerncap_stages.collect import protocol
from kerncap_stages.collect.protocol import AddressWord, ReplaceOutcome, WordPart
from kerncap_stages.collect.replacing import Replacement, ReplaceSession

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


def test_a_variable_with_very_many_words_is_sent_in_parts():
    words = tuple(AddressWord(place, WordPart.LOW, 0) for place in range(4500))
    many = protocol.ProgramVariable(0, "table", "table", 16, 0, words)
    const = protocol.ProgramVariable(0, "scale_by", "scale_by", 4, 1, ())
    replacement = Replacement("use", "variant.co", "use", None, variables=(many, const))
    first, *rest = replacement.make_messages(3)
    assert (first.rule, first.symbol) == (3, "use")
    assert [(each.rule, each.name, len(each.words)) for each in rest] == [
        (3, "table", 2000), (3, "table", 2000), (3, "table", 500), (3, "scale_by", 0),
    ]  # fmt: skip
    assert sum((each.words for each in rest), ()) == words


class Silent:
    """A connection to a process that was asked nothing."""

    process_id = 7

    def is_lost(self):
        return False

    class shared:  # noqa: N801 - as in Connection
        count_replaced = count_kept = staticmethod(lambda _rule: 0)
        read_other_shape = staticmethod(lambda _rule: None)


def test_a_variant_that_does_not_load_at_the_first_launch_replaced_nothing():
    reports = []
    session = ReplaceSession(Silent(), reports.append, [Replacement("use", "variant.co", "use", None)])
    for module, outcome in (
        (1, ReplaceOutcome.REPLACED),
        (2, ReplaceOutcome.REPLACED),
        (1, ReplaceOutcome.FAILED),
    ):
        session.handle(protocol.Replaced(module, 0, outcome, "no room" * (outcome is ReplaceOutcome.FAILED)))
    session.close()
    assert (reports[0].kernels[0].loaded, reports[0].kernels[0].failures) == (1, ["no room"])


def test_warnings_of_the_library_are_kept():
    reports = []
    session = ReplaceSession(Silent(), reports.append, [Replacement("use", "variant.co", "use", None)])
    session.handle(protocol.Note("a node of a CUDA graph of the program's keeps the variant"))
    session.close()
    assert reports[0].notes == ["a node of a CUDA graph of the program's keeps the variant"]
