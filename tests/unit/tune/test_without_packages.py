"""kc-tune and kc-evaluate-serve without the packages that their extras install."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys
for name in ("optuna", "starlette", "uvicorn"):
    sys.modules[name] = None
sys.argv[1:] = ["nothing"]
from kerncap_stages.cli.commands.{command} import main
main()
"""


@pytest.mark.parametrize(("command", "extra"), [("tune", "tune"), ("evaluate_serve", "serve")])
def test_what_is_missing_is_told_with_the_next_step(command, extra):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(command=command)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 4
    assert f"pip install 'kerncap-stages[{extra}]'" in done.stderr
