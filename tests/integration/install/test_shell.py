"""What `make shell` gives: a command line as it was typed, and completion of our executables."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest
from programs import SOURCES

if TYPE_CHECKING:
    from pathlib import Path

TOP = SOURCES.parents[1]


def bash(script: str, home: Path) -> str:
    environment = os.environ | {"HOME": str(home)}
    done = subprocess.run(
        ["bash", "-c", script], env=environment, cwd=TOP, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "typed",
    [
        "echo $HOME",
        """for i in 1 2; do echo "$i" 'and $i'; done""",
        r"kc-profile -- ./app | kc-capture --kernel 'a\b' # $$",
    ],
)
def test_a_command_line_reaches_the_shell_in_the_root_as_it_was_typed(typed: str) -> None:
    words = ["make", "-s", "shell", r"ROOT=printf '%s\n'", f"ARGS={typed}"]
    environment = {name: value for name, value in os.environ.items() if name != "MAKEFLAGS"}
    done = subprocess.run(words, env=environment, cwd=TOP, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-3:] == ["bash", "-c", typed]


COMPLETED = """
COMP_WORDS=(kc-store l) COMP_CWORD=1
function=$(complete -p kc-store | sed 's/.*-F \\([^ ]*\\) .*/\\1/')
$function kc-store
echo "${COMPREPLY[@]}"
"""


def test_the_shell_completes_our_executables(tmp_path: Path) -> None:
    load = ". tools/shell.bash; _kerncap_completion kc-store; [ $? = 124 ]"
    assert "ls" in bash(f"{load}\n{COMPLETED}", tmp_path).split()


def test_users_install_completion_by_the_executable(tmp_path: Path) -> None:
    bash("kc-store --install-completion; true", tmp_path)
    assert "ls" in bash(f". ~/.bashrc\n{COMPLETED}", tmp_path).split()
