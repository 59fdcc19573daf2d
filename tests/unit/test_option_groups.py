"""Options that are the fields of a dataclass."""

from __future__ import annotations

from dataclasses import dataclass, fields

import pytest
import typer
from typer.testing import CliRunner

from kerncap_stages.cli.commands import evaluate, evaluate_serve, tune
from kerncap_stages.cli.evaluate_options import JudgingOptions, RunsOption, VerboseOption
from kerncap_stages.cli.option_groups import spread


@dataclass(frozen=True)
class Shared:
    runs: RunsOption = 20
    verbose: VerboseOption = False


AS_USUAL = Shared()


@pytest.fixture
def run():
    app, got = typer.Typer(), []

    @app.command()
    @spread
    def command(name: str, shared: Shared = AS_USUAL, last: int = 3) -> None:
        """Do something."""
        got.append((name, shared, last))

    def run(*words):
        got.clear()
        done = CliRunner().invoke(app, words)
        return done, got[0] if got else None

    return run


def test_each_field_is_an_option(run):
    assert run("a")[1] == ("a", Shared(), 3)
    assert run("a", "--runs", "7", "-v", "--last", "4")[1] == ("a", Shared(7, True), 4)
    done, got = run("a", "--runs", "0")
    assert (done.exit_code, got) == (2, None)
    shown = run("--help")[0].output
    assert "Do something." in shown
    assert "--shared" not in shown
    assert shown.index("--runs") < shown.index("--verbose") < shown.index("--last")


@pytest.mark.parametrize("module", [evaluate, tune, evaluate_serve])
def test_commands_that_evaluate_share_the_options_of_judging(module):
    options = {each.name: each.default for each in typer.main.get_command(module.app).params}
    for each in fields(JudgingOptions):
        assert options[each.name] == each.default
