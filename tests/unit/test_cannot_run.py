"""What is said where a program of the user's does not start."""

import errno
import os

import executables
import pytest

from kerncap_stages.machine.cannot_run import explain_start_failure


@pytest.fixture
def folder(tmp_path):
    for name, text in (("text", "hello\n"), ("lost", "#!/no/such/interpreter\n"), ("plain", "#!/bin/sh\n")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o644 if name == "plain" else 0o755)
    return tmp_path


@pytest.mark.parametrize(
    ("program", "why", "next_step"),
    [
        ("./nosuch", "there is no such file", "check its path; it is relative to {folder}"),
        ("/no/such", "there is no such file", "check its path"),
        ("nosuch", "it is not in PATH", "check its spelling, or give its path"),
        ("text", "it is not in PATH", "to run the program in this folder, write ./text"),
        ("/tmp", "it is a folder", "give a program in that folder"),
        ("./text", "it is not a program and has no `#!` line", "name its interpreter: -- sh ./text"),
        ("./lost", "the interpreter that it names does not exist", "check its first line: `file ./lost`"),
        (
            "./plain",
            "it is not executable",
            "run `chmod +x ./plain`, or name its interpreter: -- sh ./plain",
        ),
    ],
)
def test_a_program_that_does_not_start_is_told_why(folder, program, why, next_step):
    done = executables.run("kc-profile", "--", program, store=folder / "store", cwd=folder)
    assert done.returncode == 5
    told = f"kc-profile: error: cannot run {program}: {why}\n  next: {next_step.format(folder=folder)}\n"
    assert done.stderr == told


def test_other_reasons_are_the_systems(folder):
    error = explain_start_failure("./text", folder, OSError(errno.E2BIG, os.strerror(errno.E2BIG)))
    assert str(error) == "cannot run ./text: Argument list too long"
    assert error.hint
    assert "does not exist" in str(
        explain_start_failure("a", folder / "gone", FileNotFoundError(errno.ENOENT, ""))
    )
