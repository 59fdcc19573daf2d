"""What kc-capture says of each capture."""

from __future__ import annotations

import manifest_examples

from kerncap_stages.cli.flows.capture import _summarize, _tell

HOSTILE = "k\x1b]0;owned\x07\r\x1b[31m"


def test_no_name_is_obeyed_by_a_terminal(capsys):
    made = manifest_examples.capture()
    kernel = made.kernel.model_copy(update={"demangled_name": HOSTILE})
    assert _summarize(made.model_copy(update={"kernel": kernel})).isprintable()
    _tell(f"warning: {HOSTILE}\nof two lines")
    assert capsys.readouterr().err.splitlines() == [
        r"kc-capture: warning: k\x1b]0;owned\x07\r\x1b[31m",
        "of two lines",
    ]
