"""What all commands of kc-store have in common: arguments, help, completion, the store's place."""

from __future__ import annotations

import hashlib
import os

import executables
import pytest
from store_commands import put, tree_of


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_commands_and_artifacts_are_completed_by_each_shell(kc, folder, shell):
    digest = put(kc, folder / "text.txt")

    def complete(line):
        variables = {"_KC_STORE_COMPLETE": f"complete_{shell}", "COMP_WORDS": line,
                     "COMP_CWORD": str(line.count(" ")), "_TYPER_COMPLETE_ARGS": line}  # fmt: skip
        if shell == "fish":
            variables["_TYPER_COMPLETE_FISH_ACTION"] = "get-args"
        return kc(env=variables).stdout

    assert "export" in complete("kc-store exp")
    assert digest[:12] in complete(f"kc-store export {digest[:5]}")
    assert "@files" in complete("kc-store du @f")
    assert "capture" in complete("kc-store ls --kind c")


def test_digests_may_be_in_upper_case(kc, folder):
    digest = put(kc, folder / "text.txt")
    text = hashlib.sha256(b"text").hexdigest()
    assert kc("cat", digest.upper(), "text.txt").stdout == "text"
    assert kc("cat", f"file:{text.upper()} ").stdout == "text"
    assert kc("du", piped=f"  {digest.upper()}\r\n").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "command"),
    [(("nope",), "kc-store"), (("--nope",), "kc-store"), (("check", "--sample", "101"), "kc-store check"),
     (("name", "x"), "kc-store name"), (("ls", "extra"), "kc-store ls"), (("gc", "--nope"), "kc-store gc")],
)  # fmt: skip
def test_wrong_arguments_name_the_help_of_their_command(kc, arguments, command):
    assert f"  next: `{command} --help` shows" in kc(*arguments).stderr


@pytest.mark.parametrize(
    "arguments",
    [("nope",), (), ("check", "--sample", "101"), ("check", "--sample", "x"), ("prune",), ("name", "x"),
     ("prune", "--keep-last", "-1"), ("export", "@"), ("put",), ("get",), ("ls", "extra")],
)  # fmt: skip
def test_wrong_arguments_end_with_2(kc, arguments):
    done = kc(*arguments)
    assert done.returncode == 2
    assert "--help" in done.stderr
    assert done.stdout == ""


def test_store_whose_path_is_not_utf8_works_and_is_named(folder, tmp_path):
    root = tmp_path / os.fsdecode(b"caf\xe9") / "store"
    digest = executables.run("kc-store", "put", folder, store=root).stdout.strip()
    done = executables.run("kc-store", "get", digest, tmp_path / "copy", store=root)
    assert (done.returncode, done.stderr) == (0, "")
    assert tree_of(tmp_path / "copy") == tree_of(folder)
    (root / "format").write_text("kerncap-store 2\n")
    done = executables.run("kc-show", digest, store=root)
    assert done.returncode == 6
    assert "caf\\xe9/store is a store of a format that we do not know" in done.stderr


def test_store_that_is_not_there_is_not_made_by_looking(tmp_path):
    for command in (("check",), ("gc",), ("du",)):
        done = executables.run("kc-store", *command, store=tmp_path / "nowhere")
        assert done.returncode == 3, command
        assert "nowhere" in done.stderr
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("exists", [True, False])
def test_list_of_a_folder_that_is_to_become_a_store_is_empty(tmp_path, exists):
    place = tmp_path / "to come"
    if exists:
        place.mkdir()
    for arguments, store in (((), place), (("--store", place), tmp_path)):
        done = executables.run("kc-store", "ls", *arguments, store=store)
        assert (done.returncode, done.stdout) == (0, "")
        assert done.stderr.startswith(f"no artifacts yet: there is no store in {place}")
        done = executables.run("kc-store", "ls", *arguments, "--json", store=store)
        assert (done.returncode, done.stdout) == (0, "[]\n")
    assert place.exists() == exists
    assert not exists or not list(place.iterdir())


def test_a_folder_or_file_that_is_something_else_is_no_store(tmp_path):
    (tmp_path / "file").touch()
    for place, why in ((tmp_path, "it holds other files"), (tmp_path / "file", "it is not a folder")):
        for command in ("ls", "du"):
            done = executables.run("kc-store", command, store=place)
            assert (done.returncode, done.stdout) == (3, "")
            assert f"{place} is not a store: {why}" in done.stderr


def test_before_the_first_stage_the_list_is_empty(tmp_path):
    env = {"KERNCAP_STORE": "", "XDG_DATA_HOME": str(tmp_path)}
    done = executables.run("kc-store", "ls", store=tmp_path, env=env)
    assert (done.returncode, done.stdout) == (0, "")
    assert "no artifacts yet" in done.stderr
    assert executables.run("kc-store", "ls", "--json", store=tmp_path, env=env).stdout == "[]\n"
    assert not (tmp_path / "kerncap-stages").exists()


def test_an_empty_store_option_is_not_the_working_folder(tmp_path):
    for words in (("kc-store", "ls"), ("kc-show",), ("kc-capture", "-k", "a")):
        done = executables.run(*words, "--store", "", store=tmp_path, cwd=tmp_path)
        assert done.returncode == 2
        assert f"{words[0]}: error: --store needs a folder, not an empty text" in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "words",
    [
        ("kc-run", "--variant", "", "--", "true"),
        ("kc-run", "--capture=", "--variant", "a.hsaco", "--", "true"),
        ("kc-validate", "some", "--report", ""),
        ("kc-validate", "some", "--expect-capture="),
        ("kc-generate", "some", "--output", ""),
    ],
)
def test_an_empty_name_is_not_the_working_folder(tmp_path, words):
    done = executables.run(*words, store=tmp_path / "store", cwd=tmp_path)
    option = next(word.rstrip("=") for word in words if word.startswith("--"))
    assert done.returncode == 2
    assert f"{words[0]}: error: {option} needs a value, not an empty text\n  next: " in done.stderr
    assert not list(tmp_path.iterdir())


def test_help_says_where_the_store_is(kc):
    shown = kc("--help").stdout
    assert "`--store DIR`" in shown
    assert "KERNCAP_STORE" in shown
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.parametrize(
    "command",
    ["check", "gc", "ls", "du", "name", "unname", "rm", "prune", "export", "import", "put", "get", "cat"],
)
def test_every_command_has_help_with_an_example(kc, command):
    done = kc(command, "--help")
    assert done.returncode == 0
    assert f"Example:\n    kc-store {command}" in done.stdout
    assert "Exit codes:" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
