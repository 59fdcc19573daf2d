"""The program's command in a stage's command line, and where it is forgotten."""

import executables
import pytest

from kerncap_stages.cli.command_line import take_command


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
        needs = " --kernel NAME" if stage == "kc-capture" else ""
        assert "`--` is missing before" in done.stderr
        assert done.stderr.endswith(f"next: {stage}{needs} -- {program}\n")
    assert "-- PROGRAM [ARGS]" in executables.run(stage, "--help", store=store.root).stdout


@pytest.mark.parametrize("stage", ["kc-profile", "kc-capture", "kc-extract"])
@pytest.mark.parametrize(
    ("typed", "options", "program"),
    [
        ("{out} true one two", "{out}", "true one two"),
        ("true --timeout 3 one {out}", "--timeout 3 {out}", "true one"),
        ("{out} --timeout=3 true --size 4 --json", "{out} --timeout=3", "true --size 4 --json"),
        ("true -x", "", "true -x"),
    ],
)
def test_the_next_step_is_the_command_that_was_typed_with_dashes(store, stage, typed, options, program):
    out = f"--store {store.root}"
    needs = "--kernel NAME" if stage == "kc-capture" and "-x" not in typed and "--size" not in typed else ""
    done = executables.run(stage, *typed.format(out=out).split(), store=store.root)
    assert done.returncode == 2
    assert "`--` is missing before" in done.stderr
    wanted = [stage, *options.format(out=out).split(), *needs.split(), "--", *program.split()]
    assert done.stderr.splitlines()[-1] == f"  next: {' '.join(wanted)}"


def test_an_unknown_option_before_the_program_is_told_as_such(store):
    for words in (("--sise", "4", "true"), ("--sise", "--", "true"), ("--output", "o", "--sise")):
        done = executables.run("kc-extract", *words, store=store.root)
        assert done.returncode == 2
        assert "No such option: --sise" in done.stderr
        assert "is missing" not in done.stderr


def test_an_output_folder_is_no_reason_to_speak_of_profiles(store, tmp_path):
    done = executables.run("kc-extract", "-o", tmp_path / "out", "true", "one", store=store.root)
    assert done.returncode == 2
    assert "`--` is missing before" in done.stderr
    assert done.stderr.endswith(f"next: kc-extract -o {tmp_path / 'out'} -- true one\n")


def test_an_option_of_the_program_that_resembles_one_of_ours_is_told_in_two_sentences(store):
    done = executables.run("kc-profile", "true", "--sizes", "3", store=store.root)
    assert done.stderr.startswith(
        "kc-profile: error: No such option: --sizes. Or `--` is missing before the program"
    )
    done = executables.run("kc-profile", "true", "--size", "3", store=store.root)
    assert "(Possible options: --store). Or `--` is missing before the program true\n" in done.stderr


def test_a_folder_is_told_which_stages_take_one(store, tmp_path):
    done = executables.run("kc-generate", tmp_path, store=store.root)
    assert done.returncode == 3
    assert "kc-show, kc-replay and kc-validate also take a folder that `kc-generate` made" in done.stderr


def test_what_is_neither_artifact_nor_program_is_a_missing_artifact(store):
    assert executables.run("kc-capture", "no-such-thing", store=store.root).returncode == 3
