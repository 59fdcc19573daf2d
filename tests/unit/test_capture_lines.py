"""What kc-capture says of each capture."""

from __future__ import annotations

import manifest_examples

from kerncap_stages.cli.flows.capture import _summarize, _tell

HOSTILE = "k\x1b]0;owned\x07\r\x1b[31m"


def test_no_name_is_obeyed_by_a_terminal(capsys):
    made = manifest_examples.capture()
    kernel = made.kernel.model_copy(update={"demangled_name": HOSTILE})
    for line in _summarize(made.model_copy(update={"kernel": kernel})):
        assert line.isprintable()
    _tell(f"warning: {HOSTILE}\nof two lines")
    assert capsys.readouterr().err.splitlines() == [
        r"kc-capture: warning: k\x1b]0;owned\x07\r\x1b[31m",
        "of two lines",
    ]


def test_a_dispatch_that_changed_nothing_is_named_with_the_next_one():
    made = manifest_examples.capture()
    assert any(region.written_size_bytes for region in made.regions)
    assert len(list(_summarize(made))) == 1
    unchanged = [region.model_copy(update={"written_size_bytes": 0}) for region in made.regions]
    _, line = _summarize(made.model_copy(update={"regions": tuple(unchanged)}))
    assert "changed nothing" in line
    assert f"`--dispatch {made.dispatch.index_of_kernel + 1}`" in line
