"""What holds for every executable of the package, those still to come too."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

import executables
import pytest

from kerncap_stages import errors
from kerncap_stages.store import Store

SCRIPTS = {
    entry.name: entry.value
    for entry in distribution("kerncap-stages").entry_points
    if entry.group == "console_scripts"
}
# Sets up the machine that the others run on: it must work where typer is not installed yet.
STANDARD_LIBRARY_ONLY = {"kc-root"}
# Promised to users of kerncap: 0, 1 and 2, and no others.
DOCUMENTED_CODES = {"kerncap", "kerncap-mcp", "kerncap-replay"}
HEAVY = {"rich", "pydantic", "numpy", "jinja2", "zstandard", "tree_sitter"}


def test_executables_are_installed():
    assert SCRIPTS.keys() >= {"kc-show", "kc-store", "kc-root"}


@pytest.mark.parametrize("name", SCRIPTS)
def test_help_shows_an_example(name, tmp_path):
    done = executables.run(name, "--help", store=tmp_path / "none")
    assert done.returncode == 0
    assert f"{name} " in done.stdout.split("xample", 1)[1]
    assert not (tmp_path / "none").exists()


def test_kc_extract_chooses_and_captures_with_the_options_of_kc_capture(tmp_path):
    """kc-extract makes one capture, so it counts none; its --json and --kernel take one of each."""
    found = []
    for name in ("kc-capture", "kc-extract"):
        shown = executables.run(name, "--help", store=tmp_path / "none").stdout
        found.append(set(re.findall(r"^  (?:-\w, )?(--[\w-]+)", shown, re.MULTILINE)))
    assert len(found[0]) > 20
    assert found[0] - found[1] == {"--cases", "--count", "--every"}


@pytest.mark.parametrize("name", SCRIPTS)
def test_help_has_a_short_option(name, tmp_path):
    shown = [executables.run(name, option, store=tmp_path / "none") for option in ("-h", "--help")]
    assert shown[0].returncode == 0
    assert shown[0].stdout == shown[1].stdout


@pytest.mark.parametrize("name", sorted(SCRIPTS.keys() - STANDARD_LIBRARY_ONLY))
def test_help_shows_the_exit_codes(name, tmp_path):
    done = executables.run(name, "--help", store=tmp_path / "none")
    codes = done.stdout.partition("Exit codes:")[2]
    wanted = [0, 1, 2] if name in DOCUMENTED_CODES else list(errors.ExitCode)
    if name == "kc-run":  # else the program's
        wanted = [1, 2, 3, 4, 5, 6]
    assert all(f"{int(code)} " in codes for code in wanted)


@pytest.mark.parametrize("name", SCRIPTS)
def test_help_imports_nothing_heavy(name):
    module, _, function = SCRIPTS[name].partition(":")
    program = f"import sys; sys.argv[1:] = ['--help']; from {module} import {function}; {function}()"
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", program], capture_output=True, text=True, check=True
    )
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert imported & HEAVY == set()
    assert "kerncap_stages" in imported


# As Python begins: what it loads by itself says nothing of what an executable loads.
_INTERRUPTED = """
import _signal, sys
class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name not in ("__future__", "kerncap_stages", "kerncap_stages.launch"):
            _signal.raise_signal(_signal.SIGINT)
_signal.signal(_signal.SIGINT, _signal.default_int_handler)
for name in ("enum", "importlib", "signal", "typing"):
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Interrupt())
sys.argv[1:] = ["--help"]
from {module} import {function}
{function}()
"""


@pytest.mark.parametrize("name", SCRIPTS)
def test_an_interrupt_while_it_is_imported_is_quiet(name):
    module, _, function = SCRIPTS[name].partition(":")
    program = _INTERRUPTED.format(module=module, function=function)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


@pytest.mark.parametrize("name", ["kc-show", "kc-store"])
def test_a_page_that_nobody_can_read_is_an_error(name, tmp_path):
    words = ["kc-show"] if name == "kc-show" else ["kc-store", "ls", "--json"]
    done = subprocess.run(
        ["sh", "-c", '"$@" >&-', "sh", *words],
        env=os.environ | {"KERNCAP_STORE": str(Store.open(tmp_path / "store").root)},
        stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "standard output is closed" in done.stderr


@pytest.mark.parametrize(
    ("words", "usage"),
    [
        (("kc-softgpu",), "[OPTIONS] -- COMMAND [ARGS]..."),
        (("kc-store", "get"), "[OPTIONS] ARTIFACT [PATH]"),
        (("kc-store", "import"), "[OPTIONS] FILE..."),
        (("kerncap", "profile"), "[OPTIONS] -- CMD..."),
        (("kerncap-replay",), "[OPTIONS] DIR"),
    ],
)
def test_usage_is_what_is_typed(words, usage, tmp_path):
    done = executables.run(*words, "--help", store=tmp_path / "none")
    assert done.stdout.startswith(f"Usage: {' '.join(words)} {usage}\n")


@pytest.mark.parametrize(
    ("name", "said", "not_said"),
    [
        ("kc-capture", "`@profile` for the latest of a kind", "@capture"),
        ("kc-extract", "`@profile` for the latest of a kind", "@capture"),
        ("kc-show", "manifest instead of a page", "instead of its digest"),
    ],
)
def test_help_says_what_this_executable_takes_and_prints(name, said, not_said, tmp_path):
    done = executables.run(name, "--help", store=tmp_path / "none")
    shown = " ".join(done.stdout.split())
    assert said in shown
    assert not_said not in shown


@pytest.mark.parametrize("name", SCRIPTS)
def test_wrong_option_is_wrong_usage(name, tmp_path):
    done = executables.run(name, "--no-such-option", store=tmp_path / "none")
    assert done.returncode == 2
    assert done.stdout == ""
    assert f"{name}: error: " in done.stderr


@pytest.mark.parametrize("name", SCRIPTS)
def test_help_speaks_of_no_types_of_the_parser(name, tmp_path):
    done = executables.run(name, "--help", store=tmp_path / "none")
    assert done.returncode == 0
    for text in (" <int", " <float", "int range", "[words]"):
        assert text not in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("kc-capture", "--count", "x"), "Invalid value for '--count': 'x' is not a whole number."),
        (("kc-capture", "--count", "0"), "Invalid value for '--count': 0 is too small: at least 1"),
        (("kc-capture", "--count", 2**61), f"--count {2**61}: at most {1 << 60} dispatches"),
        (("kc-replay", "-n", "0"), "0 is out of range: from 1 to 1000000000"),
        (("kc-validate", "--rtol", "x"), "'x' is not a number."),
        (("kc-validate", "--rtol", "-1"), "-1.0 is too small: at least 0.0"),
        (("kc-store", "check", "--sample", "101"), "101.0 is out of range: from 0.0 to 100.0"),
    ],
)
def test_a_wrong_number_is_told_in_words(words, said, tmp_path):
    done = executables.run(*words, store=tmp_path / "none")
    assert done.returncode == 2
    assert said in done.stderr


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (
            ("kc-store", "ls", "--kind", "captures"),
            2,
            "--kind captures: there is no such kind\n  next: one of pro",
        ),
        (("kc-store", "get", "@files"), 3, "there are no files yet"),
        (("kc-store", "get", "@"), 3, "is a capture and holds no files\n  next: `kc-store put` stores"),
        (
            ("kc-store", "cat", "memory:1"),
            2,
            "memory:1 is not a reference: it needs memory: and 64 hexadecimal digits",
        ),
        (
            ("kc-capture", "@"),
            3,
            "but a profile is needed\n  next: `@profile` is the latest; `kc-store ls --kind",
        ),
        (("kc-capture", "scale"), 3, "lists the artifacts; use --kernel to name a kernel"),
        (
            ("kc-capture",),
            2,
            "no program and no profile given\n  next: `kc-capture --kernel NAME -- ./app`, or",
        ),
        (
            ("kc-validate",),
            2,
            "no project and no capture given\n  next: `kc-validate ./isolated/KERNEL` checks",
        ),
        (
            ("kc-profile", "-o", "/no/x", "--", "true"),
            2,
            "--output /no/x: there is no folder /no\n  next: give",
        ),
        (("kc-profile", "-o", "/", "--", "true"), 2, "--output /: it is a folder\n  next: give a file in"),
        (("kc-softgpu", "--gpus", "9", "--", "true"), 2, "--gpus 9: out of range\n  next: from 1 to 8"),
        (("kc-softgpu", "--vram", "lots", "--", "true"), 2, "lots: not a size\n  next: write it like 4GiB"),
        (("kc-extract", "@", "--exact", "--regex"), 2, "exclude each other\n  next: give one of them"),
    ],
)
def test_an_error_names_the_next_step(store, words, code, told):
    executables.publish_capture(store)
    done = executables.run(*words, store=store.root)
    assert (done.returncode, done.stdout) == (code, "")
    assert told in done.stderr


def test_what_cannot_be_written_is_told_with_its_name(store):
    digest = executables.publish_capture(store)
    with Path("/dev/full").open("w") as full:
        done = executables.run("kc-show", digest, store=store.root, capture_output=False,
                               stdout=full, stderr=subprocess.PIPE)  # fmt: skip
    assert done.returncode == 4
    assert done.stderr.endswith(
        "No space left on device\n  next: free space where this writes to, and run it again\n"
    )
    assert "Errno" not in done.stderr
    done = executables.run("kc-profile", "--", "true", store="/proc/nosuch")
    assert done.returncode == 3
    assert (
        "cannot create a store at /proc/nosuch: No such file or directory\n  next: name a folder"
        in done.stderr
    )


@pytest.mark.parametrize("name", SCRIPTS)
def test_version_names_the_package(name, tmp_path):
    done = executables.run(name, "--version", store=tmp_path / "none")
    assert done.returncode == 0
    assert done.stdout.startswith(f"{name} (kerncap-stages) ")


def test_a_page_loads_no_library_that_it_does_not_need():
    program = (
        "import sys; import kerncap_stages.cli.flows.show; "
        "sys.exit(str({'numpy', 'elftools', 'lief', 'tree_sitter', 'jinja2'} & set(sys.modules)))"
    )
    # -P: the installed package, not the sources in the current folder, which have no native parts.
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == "set()"


def run_after_start(program: str) -> str:
    """What a program prints to standard error at its end, in a process that began as kc-validate does."""
    begins = (
        "import sys; sys.argv = ['kc-validate', '--version']; from kerncap_stages.launch import kc_validate\n"
        "try:\n    kc_validate()\nexcept SystemExit:\n    pass\n"
    )
    words = [sys.executable, "-P", "-c", begins + program]
    return subprocess.run(words, capture_output=True, text=True, check=False).stderr.strip()


def test_a_verdict_loads_no_library_that_it_does_not_need():
    unneeded = {"asyncio", "bdb", "cmd", "rich", "ssl", "jinja2", "numpy.random"}
    unneeded |= {"kerncap_stages.collect.protocol", "kerncap_stages.collect.ranking"}
    unneeded |= {"kerncap_stages.compilers.llvm_tools"}
    loads = "import kerncap_stages.validate.verdict as verdict, elftools.elf.elffile\n"
    assert run_after_start(f"{loads}sys.exit(str({unneeded} & set(sys.modules)))") == "set()"


def test_the_debugger_is_there_for_who_uses_it():
    assert run_after_start("import kerncap_stages.code.elf, pdb\nsys.exit(pdb.Pdb.__name__)") == "Pdb"
    assert run_after_start("import pdb, kerncap_stages.code.elf\nsys.exit(pdb.Pdb.__name__)") == "Pdb"
