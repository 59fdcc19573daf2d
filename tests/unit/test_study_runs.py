"""A case study's folder is one run's at a time and of one commit; an interrupted run goes on."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

COMMON = Path(__file__).resolve().parents[2] / "docs/case-studies/common"
STUDY = """
import sys
from functools import partial
from pathlib import Path

sys.path.insert(1, sys.argv.pop(1))

from command import run_command
from edits import Edit, Kernel
from measuring import measure_loop
from running import Study

HERE = Path(__file__).resolve().parent
KERNELS = tuple(
    Kernel(key, key, "file.cu", Edit("", "a", "a", "b"), Edit("", "a", "a", "c"), "plain")
    for key in ("k", "l")
)


class Fake(Study):
    @property
    def edited(self):
        return self.folder / "source"

    @property
    def build_command(self):
        return (HERE / "build.sh", self.folder)

    def program(self, name):
        return ("true",)

    def read_ninja_log(self):
        return set()


def prepare(study):
    for name in ("source/file.cu", "original/file.cu", "projects/k/kernel_variant.cu", "plain.txt"):
        file = study.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("a")
    return {}


def run_study(study, kernels, options):
    return {
        "prepare": study.step("prepare", partial(prepare, study)),
        "loops": {
            kernel.key: study.step(f"loop-{kernel.key}", partial(measure_loop, study, kernel))
            for kernel in kernels[:1]
        },
    }


run_command("make study-fake", HERE, Fake, KERNELS, run_study, "A study.")
"""
# The build of an edited file goes on until it is ended, where a test gives it a FIFO. timeout(1) runs it: so
# Ctrl-C does not reach its process group.
BUILD = """#!/bin/sh
cat "$1/source/file.cu" >> "$1/built"
if [ -p "$STARTED" ] && [ "$(cat "$1/source/file.cu")" != a ]; then
    echo $$ > "$STARTED"
    exec sleep 1000
fi
"""
TOOLS = {
    "make": "#!/bin/sh\n",
    "kc-validate": '#!/bin/sh\necho \'{"passed": true, "mode": "", "pre_states": 1, "reasons": []}\'\n',
}
PAGE = "def make_files(results):\n    return {'README.md': str(results)}\n"


class Checkout:
    """A checkout with a study in it, and a folder for the study."""

    def __init__(self, folder: Path) -> None:
        self.top, self.folder = folder / "checkout", folder / "folder"
        self.study = self.top / "studies/fake"
        self.study.mkdir(parents=True)
        for name, text in {"study.py": STUDY, "build.sh": BUILD, "page.py": PAGE}.items():
            (self.study / name).write_text(text)
        (self.study / "build.sh").chmod(0o755)
        tools = folder / "tools"
        tools.mkdir()
        for name, text in TOOLS.items():
            (tools / name).write_text(text)
            (tools / name).chmod(0o755)
        self.variables = {
            **os.environ,
            "PATH": f"{tools}:{os.environ['PATH']}",
            "PYTHONDONTWRITEBYTECODE": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
        }
        self._git("init", "-q")
        self.commit()

    def commit(self) -> None:
        """Commit all files; there is always something new."""
        self._git("add", ".")
        who = ("-c", "user.name=A", "-c", "user.email=a@b")
        self._git(*who, "commit", "-q", "--allow-empty", "-m", "a change")

    def _git(self, *words: str) -> None:
        subprocess.run(["git", "-C", self.top, *words], check=True, env=self.variables)

    def start(self, *words: str, **variables: str) -> subprocess.Popen[str]:
        """Start the study in a session of its own, as in a terminal."""
        command = [sys.executable, self.study / "study.py", COMMON, "--folder", self.folder, *words]
        return subprocess.Popen(
            command,
            env={**self.variables, **variables},
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            # A script in the background ignores SIGINT, and what it starts inherits that.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    def run(self, *words: str) -> tuple[int, str]:
        """Run the study. Returns its exit code, and what it printed."""
        process = self.start(*words)
        printed = process.communicate()[1]
        return process.returncode, printed

    def read_steps(self) -> dict[str, Any]:
        """Return when each step was done."""
        return {file.name: file.stat().st_mtime_ns for file in (self.folder / "steps").glob("*.json")}


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_second_run_is_refused_while_the_first_has_the_folder(checkout: Checkout) -> None:
    checkout.folder.mkdir()
    with (checkout.folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        code, printed = checkout.run()
    assert code == 1
    assert printed == (
        f"study: another run uses {checkout.folder}\n  next: wait until it has ended, or --folder OTHER\n"
    )
    assert checkout.run()[0] == 0


def test_folder_with_other_files_is_left_alone(checkout: Checkout) -> None:
    (checkout.folder / "source").mkdir(parents=True)
    code, printed = checkout.run("--afresh")
    assert (code, list(checkout.folder.iterdir())) == (1, [checkout.folder / "source"])
    assert "neither empty nor a study's" in printed


@pytest.mark.parametrize("name", ["file", "file/below", "/proc/study"])
def test_folder_that_cannot_be_used_is_named(checkout: Checkout, tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    checkout.folder = tmp_path / name
    code, printed = checkout.run()
    assert code == 1
    assert printed.startswith(f"study: {checkout.folder} cannot be used: ")
    assert printed.endswith("\n  next: --folder OTHER\n")


def test_folder_of_another_study_is_refused(checkout: Checkout) -> None:
    """Their steps have names in common."""
    assert checkout.run()[0] == 0
    made_by = json.loads((checkout.folder / "made-by.json").read_text())
    (checkout.folder / "made-by.json").write_text(json.dumps({**made_by, "study": "llama"}))
    code, printed = checkout.run()
    assert code == 1
    assert "\n  study: llama there, fake here\n" in printed


@pytest.mark.parametrize("option", ["--jobs", "--build-limit"])
@pytest.mark.parametrize("value", ["0", "-1", "1.5", ""])
def test_options_that_count_want_positive_numbers(checkout: Checkout, option: str, value: str) -> None:
    code, printed = checkout.run(f"{option}={value}")
    assert code == 2
    assert f"argument {option}: {value} is not a number from 1 on" in printed


def test_tool_that_is_missing_is_said_without_a_traceback(checkout: Checkout) -> None:
    (checkout.study / "build.sh").unlink()
    code, printed = checkout.run()
    assert code == 1
    assert printed.splitlines()[-1].startswith("study: [Errno 2] No such file or directory: ")
    assert "Traceback" not in printed


def test_run_of_the_same_commit_repeats_nothing(checkout: Checkout) -> None:
    assert checkout.run()[0] == 0
    steps = checkout.read_steps()
    assert set(steps) == {"prepare.json", "loop-k.json"}
    assert json.loads((checkout.study / "results.json").read_text()).keys() == {"prepare", "loops"}
    assert checkout.run()[0] == 0  # although it has written its page into the checkout
    assert checkout.read_steps() == steps
    assert checkout.run("--again", "loop-k")[0] == 0
    assert {name for name, when in checkout.read_steps().items() if when != steps[name]} == {"loop-k.json"}


@pytest.mark.parametrize("change", ["commit", "edit", "new file"])
def test_steps_of_another_state_of_the_checkout_are_refused(checkout: Checkout, change: str) -> None:
    assert checkout.run()[0] == 0
    steps = checkout.read_steps()
    if change == "edit":
        (checkout.study / "build.sh").write_text(f"{BUILD}\n")
    else:
        (checkout.top / "new.py").write_text("")
    if change == "commit":
        checkout.commit()
    for words in ((), ("--again", "loop-k")):
        code, printed = checkout.run(*words)
        assert code == 1
        assert f"the steps in {checkout.folder} are of another run:" in printed
        assert ("commit: " if change == "commit" else "changes: none there, ") in printed
        assert "--folder OTHER" in printed
        assert "--afresh" in printed
    assert checkout.read_steps() == steps
    assert checkout.run("--page")[0] == 0


def test_other_options_and_unknown_origins_are_refused(checkout: Checkout) -> None:
    assert checkout.run("--jobs", "3")[0] == 0
    code, printed = checkout.run("--jobs", "4")
    assert code == 1
    assert "  --jobs: 3 there, 4 here\n" in printed
    (checkout.folder / "made-by.json").unlink()
    code, printed = checkout.run("--jobs", "3")
    assert code == 1
    assert "commit: unknown there" in printed


def test_afresh_keeps_archives_alone(checkout: Checkout) -> None:
    assert checkout.run("--jobs", "3")[0] == 0
    (checkout.folder / "source-1.0.tar.gz").touch()
    (checkout.folder / "build").mkdir()
    (checkout.folder / "model").touch()
    steps = checkout.read_steps()
    assert checkout.run("--jobs", "4", "--afresh")[0] == 0
    assert all(when != steps[name] for name, when in checkout.read_steps().items())
    assert (checkout.folder / "source-1.0.tar.gz").exists()
    assert not (checkout.folder / "build").exists()
    assert not (checkout.folder / "model").exists()
    assert checkout.run("--jobs", "4")[0] == 0


def test_unknown_step_is_refused_with_a_list_of_steps(checkout: Checkout) -> None:
    code, printed = checkout.run("--again", "loop-k", "--again", "NONSENSE")
    assert (code, printed) == (1, "study: no step NONSENSE; the steps are: prepare, loop-k\n")
    assert not checkout.folder.exists()


def test_help_has_the_name_and_the_options_of_its_study(checkout: Checkout) -> None:
    command = [sys.executable, checkout.study / "study.py", COMMON, "--help"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert text.startswith("usage: make study-fake ")
    assert "--tests" not in text


def test_interrupted_run_leaves_no_process_and_no_edit_and_goes_on(
    checkout: Checkout, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "started")
    process = checkout.start(STARTED=str(tmp_path / "started"))
    build = int((tmp_path / "started").read_text())  # waits for it
    assert (checkout.folder / "source/file.cu").read_text() == "b"
    os.killpg(process.pid, signal.SIGINT)
    printed = process.communicate()[1]
    assert process.returncode == 130
    assert printed.endswith("\nstudy: interrupted; the same command goes on at step loop-k\n")
    assert "Traceback" not in printed
    assert not Path(f"/proc/{build}").exists()
    assert (checkout.folder / "source/file.cu").read_text() == "a"
    assert (checkout.folder / "projects/k/kernel_variant.cu").read_text() == "a"
    # What was built last is the edit: the next run builds the unedited source before anything else.
    (checkout.folder / "built").write_text("")
    code, printed = checkout.run()
    assert code == 0
    assert printed.index("build.sh") < printed.index("loop-k …")
    assert (checkout.folder / "built").read_text().startswith("aab")
