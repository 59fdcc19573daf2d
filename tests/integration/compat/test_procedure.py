"""The published procedure that tests kerncap against an application, steps 2 to 6, command by command.

The commands are the document's own, with its placeholders filled in; its output folder is used too. Step 6 is
the report: the answers that it asks for are the assertions here.
"""

from __future__ import annotations

import fcntl
import json
import shutil
from pathlib import Path

import pytest

OUTPUT = Path("/tmp/kerncap-test")
APP_CMD, KERNEL_NAME = "<app_cmd>", "<kernel_name>"


@pytest.fixture
def output_folder():
    """The document's output folder, empty, and ours alone while the test runs."""
    with Path("/tmp/kerncap-test.lock").open("a") as lock:
        Path(lock.name).chmod(0o666)
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.rmtree(OUTPUT, ignore_errors=True)
        yield OUTPUT
        shutil.rmtree(OUTPUT, ignore_errors=True)


def test_steps_2_to_6_of_the_published_procedure(shell, application, output_folder):
    # So many steps that no noise of a busy machine changes which kernel comes first.
    words = {APP_CMD: f"{application}/demo 200"}

    def run(line: str):
        for placeholder, value in words.items():
            line = line.replace(placeholder, value)
        return shell(line)

    # Step 2: select the kernel with the highest total time, by a substring that is long enough.
    rows = run("kerncap profile -- <app_cmd>").out.splitlines()
    assert rows[0].split() == ["Rank", "Calls", "Total", "(ms)", "Avg", "(us)", "%", "Kernel"]
    totals = [float(row.split()[2]) for row in rows[1:]]
    assert totals == sorted(totals, reverse=True)
    name = rows[1].split(None, 5)[5]
    assert name.startswith("demo::add_rows(")
    words[KERNEL_NAME] = name.partition("(")[0]

    # Step 3: the flags come from the help text.
    flags = run("kerncap extract --help").out
    for flag in ("--cmd", "--source-dir", "--output", "--language", "-D", "--dispatch"):
        assert flag in flags
    run(
        "kerncap extract '<kernel_name>' --cmd '<app_cmd>' "
        f"--source-dir {application} --output '/tmp/kerncap-test/<kernel_name>' --language hip"
    )
    folder = output_folder / words[KERNEL_NAME]
    for expected in ("kernel_variant.cpp", "vfs.yaml", "Makefile", "deps", "capture/dispatch.json"):
        assert (folder / expected).exists(), expected
    metadata = json.loads((folder / "capture/metadata.json").read_text())
    assert metadata["kernel_name"] == name
    assert metadata["kernarg_raw"]

    # Step 4
    run("cd '/tmp/kerncap-test/<kernel_name>'\nmake run")

    # Step 5a: a smoke test; 5b: recompile the unmodified source; 5c: compare byte for byte.
    smoke = run("kerncap validate '/tmp/kerncap-test/<kernel_name>'")
    assert smoke.out.splitlines()[-1] == "Result: PASS  (smoke)"
    run("cd '/tmp/kerncap-test/<kernel_name>'\nmake recompile")
    assert (folder / "optimized.hsaco").stat().st_size > 0
    exact = run(
        "kerncap validate '/tmp/kerncap-test/<kernel_name>' "
        "--hsaco '/tmp/kerncap-test/<kernel_name>/optimized.hsaco'"
    )
    assert exact.out.splitlines()[-1] == "Result: PASS  (byte-exact, 1 of 1 regions identical)"
