"""The forms in which scripts that were written for kerncap name things and get their answers."""

from __future__ import annotations

import re
import shutil
import sys

import pytest

LATE = """
import sys
from kerncap import Kerncap

try:
    Kerncap().extract("no_such_kernel", cmd=sys.argv[1:], timeout=1)
except TimeoutError as error:
    assert isinstance(error, RuntimeError) and "within 1 s" in str(error), error
else:
    raise SystemExit("no TimeoutError")
"""


@pytest.mark.parametrize("command", ["kerncap replay", "kerncap-replay"])
def test_the_folder_of_the_capture_stands_for_its_project(shell, project, command):
    assert "Average GPU time: " in shell(f"{command} ./project/capture --dump-output").out
    assert list((project / "capture/output").iterdir())
    assert shell("kerncap validate capture", folder=project).out.splitlines()[-1] == "Result: PASS  (smoke)"


def test_make_takes_the_documented_variables(shell, project):
    printed = shell("make -s -C project run REPLAY=kerncap-replay").out
    assert re.search(r"^Average GPU time: [0-9.]+ us$", printed, re.MULTILINE)
    shutil.copytree(project / "capture", shell.folder / "elsewhere/capture")
    (project / "capture/project.json").unlink()
    shell("make -s -C project run CAPTURE_DIR=../elsewhere/capture")
    shell("make -s -C project run", code=2)


def test_flags_that_hipcc_takes_from_the_environment_name_no_target(shell, application):
    shell.variables["HIPCC_COMPILE_FLAGS_APPEND"] = "--offload-arch=gfx1100 -DUNUSED"
    done = shell(
        f"kerncap extract demo::add_rows --cmd {application}/demo --source-dir {application} --output project"
    )
    assert "has_source: True" in done.out
    shell("make -s -C project recompile && kerncap validate project")


def test_a_program_that_takes_too_long_is_a_timeout(shell):
    shell.run([sys.executable, "-P", "-c", LATE, sys.executable, "-c", "import signal; signal.pause()"])
