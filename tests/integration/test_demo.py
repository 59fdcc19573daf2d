"""The demo is the whole job, and it checks every answer: the verdicts are read here too."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).parents[2] / "tools/demo.py"


@pytest.mark.skipif(shutil.which("hipcc") is None, reason="needs hipcc: run it in the ROCm root")
def test_the_demo_takes_a_kernel_through_the_whole_job():
    done = subprocess.run([sys.executable, DEMO], capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    verdicts = [line.strip() for line in done.stderr.splitlines() if line.startswith("Result: ")]
    assert verdicts == [
        "Result: PASS  (byte-exact, 1 of 1 regions identical)",
        "Result: PASS  (byte-exact, 1 of 1 regions identical)",
        "Result: FAIL  (byte-exact, 0 of 1 regions identical, 1 differ)",
        "Result: FAIL  (byte-exact, 0 of 1 regions identical, 1 differ)",
    ]
