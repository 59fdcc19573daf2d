"""What the commands that evaluate say to people: the table in a log, and the names of options."""

from __future__ import annotations

import io
import os
import re
from pathlib import Path
from types import SimpleNamespace

import manifest_examples as examples
import pytest
import typer
from rich.console import Console

from kerncap_stages.cli.commands import tune
from kerncap_stages.cli.flows.evaluate import Lines, describe_left_out, show_ranks
from kerncap_stages.cli.options import check_seconds_option
from kerncap_stages.errors import UsageError
from kerncap_stages.pages import render
from kerncap_stages.pages.evaluation import point_to_reasons, summarise


def test_a_row_of_the_table_is_one_line_in_a_log(capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    made = examples.evaluation()
    name = "a/rather/long/path/" * 8 + "tile 8.hip"
    first = made.variants[0].model_copy(update={"name": name, "flags": ("-DTILE=8",) * 20})
    show_ranks(made.model_copy(update={"variants": (first, *made.variants[1:])}))
    lines = [line for line in capsys.readouterr().err.splitlines() if name in line]
    assert len(lines) == 3  # it and its twin in the table, and the best one
    assert lines[0].count("-DTILE=8") == 20


def test_a_wrong_variants_verdict_is_named_beside_its_reasons():
    made = examples.evaluation()
    console = Console(width=400, file=io.StringIO())
    for section in render(made):
        console.print(section)
    (row,) = (line for line in console.file.getvalue().splitlines() if "wrong.hsaco" in line)
    assert f"outputs differ; `kc-show {examples.digest('verdict 2').short}`" in row
    digest = examples.digest("evaluation")
    assert point_to_reasons(made, digest) == (
        f"`kc-show {digest.short}` shows 4 variants with reasons and verdicts"
    )


@pytest.mark.parametrize(
    ("quick", "fresh_values", "said"),
    [(False, True, None), (True, True, "--quick left out changed"), (False, False, "--captured-values left")],
)
def test_variants_that_are_not_judged_in_full_are_said_to_be_so(quick, fresh_values, said):
    judging = SimpleNamespace(quick=quick, fresh_values=fresh_values)
    line = describe_left_out(judging, "my project")
    assert (line is None) is (said is None)
    assert line is None or line.startswith(f"Not full: {said}")
    assert line is None or line.endswith("`kc-validate 'my project' --variant FILE`")


@pytest.mark.parametrize(("stream", "name"), [(1, "/dev/stdout"), (1, "same file"), (2, "/dev/stderr")])
def test_lines_to_a_stream_are_not_written_over_by_what_follows(tmp_path, stream, name):
    path = tmp_path / "out"
    kept, other = os.dup(stream), os.open(path, os.O_WRONLY | os.O_CREAT)
    os.write(other, b"before\n")
    os.dup2(other, stream)
    try:
        with Lines(path if name == "same file" else Path(name)) as lines:
            lines.write({"number": 0})
            lines.write({"number": 1})
        os.write(stream, b"digest\n")
    finally:
        os.dup2(kept, stream)
    assert path.read_text() == 'before\n{"number": 0}\n{"number": 1}\ndigest\n'


def test_a_file_of_lines_begins_anew(tmp_path):
    path = tmp_path / "lines"
    path.write_text("of an earlier run\n")
    with Lines(path) as lines:
        lines.write({"number": 0})
    assert path.read_text() == '{"number": 0}\n'


def test_no_file_is_named_like_standard_input(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=r"^--lines -: ") as caught:
        Lines(Path("-"))
    assert "/dev/stdout" in caught.value.hint
    assert list(tmp_path.iterdir()) == []


def test_an_option_is_named_as_it_is_typed():
    option = next(each for each in typer.main.get_command(tune.app).params if each.name == "max_time")
    with pytest.raises(UsageError, match="--max-time takes seconds") as caught:
        check_seconds_option(option, 0.0)
    assert caught.value.hint == "--max-time 60"


def test_ranks_of_different_gpus_are_noted():
    made = examples.evaluation()
    assert not any("different GPUs" in line for line in summarise(made))

    def on(variant, device):
        time = variant.cases[0].time.model_copy(update={"device": device})
        return variant.model_copy(update={"cases": (variant.cases[0].model_copy(update={"time": time}),)})

    right, twin, *others = made.variants
    for other, is_noted in (("H100 sm_90", False), ("H200 sm_90", True)):
        mixed = made.model_copy(update={"variants": (on(right, "H100 sm_90"), on(twin, other), *others)})
        lines = [line for line in summarise(mixed) if "different GPUs" in line]
        assert bool(lines) is is_noted
        assert not is_noted or "H100 sm_90; H200 sm_90" in lines[0]


def timed(variant, **changes):
    """The variant with another time in its only case."""
    time = variant.cases[0].time.model_copy(update={"variant_instructions": None, **changes})
    return variant.model_copy(update={"cases": (variant.cases[0].model_copy(update={"time": time}),)})


def test_times_have_the_floor_beside_them_where_it_is_known():
    made = examples.evaluation()
    right, twin, *others = made.variants
    best = timed(right, variant_ns=75_000.0, captured_ns=100_000.0, least_ns=50_000.0)
    other = timed(twin, variant_ns=110_000.0, captured_ns=100_000.0, least_ns=50_000.0)
    floors = made.model_copy(update={"variants": (best, other, *others)})
    assert "Floor: what must be written takes at least 50.0 µs; the best takes 1.5 times that" in list(
        summarise(floors)
    )
    shown = show(floors)
    assert "time / floor" in shown
    assert re.search(r"0\.750 +75\.0 µs +1\.5 ", shown)
    assert re.search(r"110 µs +2\.2 ", shown)
    unknown = made.model_copy(update={"variants": (timed(right, variant_ns=75_000.0), twin, *others)})
    for each in (made, unknown):
        assert "floor" not in show(each).lower()


def show(made):
    out = io.StringIO()
    console = Console(file=out, width=200)
    for part in render(made):
        console.print(part)
    return out.getvalue()
