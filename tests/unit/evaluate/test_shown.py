"""What the commands that evaluate say to people: the table in a log, and the names of options."""

from __future__ import annotations

import manifest_examples as examples
import pytest
import typer

from kerncap_stages.cli.commands import tune
from kerncap_stages.cli.flows.evaluate import show_ranks
from kerncap_stages.cli.options import check_seconds_option
from kerncap_stages.errors import UsageError


def test_a_row_of_the_table_is_one_line_in_a_log(capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    made = examples.evaluation()
    name = "a/rather/long/path/" * 8 + "tile 8.hip"
    first = made.variants[0].model_copy(update={"name": name, "flags": ("-DTILE=8",) * 20})
    show_ranks(made.model_copy(update={"variants": (first, *made.variants[1:])}))
    lines = [line for line in capsys.readouterr().err.splitlines() if name in line]
    assert len(lines) == 2  # in the table, and as the best one
    assert lines[0].count("-DTILE=8") == 20


def test_an_option_is_named_as_it_is_typed():
    option = next(each for each in typer.main.get_command(tune.app).params if each.name == "max_time")
    with pytest.raises(UsageError, match="--max-time takes seconds") as caught:
        check_seconds_option(option, 0.0)
    assert caught.value.hint == "--max-time 60"
