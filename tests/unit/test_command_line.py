"""The program's command in a stage's command line, and where it is forgotten."""

import executables
import pytest

from kerncap_stages.command_line import take_command


def test_the_command_is_all_behind_the_first_dashes():
    arguments = ["kc-capture", "-k", "a", "--", "./app", "--", "-x"]
    assert take_command(arguments) == ("./app", "--", "-x")
    assert arguments == ["kc-capture", "-k", "a"]
    assert take_command(["kc-capture"]) is None


@pytest.mark.parametrize("stage", ["kc-profile", "kc-capture", "kc-extract"])
def test_a_program_without_dashes_is_told_where_they_stand(store, tmp_path, stage):
    app = tmp_path / "app"
    app.touch()
    for program in (str(app), "true"):
        done = executables.run(stage, program, store=store.root)
        assert done.returncode == 2
        assert f" -- {program}\n" in done.stderr
    assert "-- PROGRAM [ARGS]" in executables.run(stage, "--help", store=store.root).stdout


def test_what_is_neither_artifact_nor_program_is_a_missing_artifact(store):
    assert executables.run("kc-capture", "no-such-thing", store=store.root).returncode == 3
