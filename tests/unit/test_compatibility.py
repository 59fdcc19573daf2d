"""docs/compatibility.md is held to the code, and to the list of what was ever documented."""

from __future__ import annotations

import dataclasses
import inspect
import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import executables
import manifest_examples
import pytest

import kerncap
from kerncap_stages.api import lines
from kerncap_stages.manifests.memory import ModuleVariable
from kerncap_stages.manifests.replay import ReplayOutcome
from kerncap_stages.manifests.validation import Mode, Tolerance
from kerncap_stages.project.render import Part, render

TOP = Path(__file__).parents[2]
PAGE = TOP / "docs/compatibility.md"
ANSWERS = {"same", "same, note", "refused"}
DOCUMENTED_FLAGS = {
    "kerncap": "--verbose -v --version",
    "kerncap profile": "--output -o --timeout",
    "kerncap extract": "--cmd --source-dir --output -o --language --dispatch --defines -D --timeout "
    "--triton-backend",
    "kerncap replay": "--hsaco --iterations -n --json --dump-output --hip-launch",
    "kerncap validate": "--tolerance -t --rtol --hsaco --verbose -v",
    "kerncap-replay": "--hsaco --iterations -n --json --dump-output --hip-launch --no-recopy",
}
DOCUMENTED_RESULTS = {
    "KernelStat": "name calls total_duration_ns avg_duration_ns min_duration_ns max_duration_ns "
    "percentage stddev_ns",
    "ExtractResult": "output_dir capture_dir language has_source generated_files",
    "ReplayResult": "returncode stdout stderr timing_us",
    "ValidationResult": "passed details max_error mode region_lines regions_total regions_identical "
    "outputs_total outputs_passed atol",
}
FLAG = re.compile(r"(?<![\w-])--?[A-Za-z][A-Za-z-]*")


def rows(heading: str) -> list[list[str]]:
    """Cells of every table below a heading of the page, without their heads."""
    section = PAGE.read_text().split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    cells = [
        [cell.replace("\\|", "|").strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for line in section.splitlines()
        if line.startswith("| `")
    ]
    assert cells
    return cells


def code(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


COMMANDS, PYTHON = rows("Commands"), rows("Python")
FILES, VARIABLES = rows("The project's files"), rows("Environment variables")


@cache
def help_of(command: str) -> str:
    done = executables.run(*command.split(), "--help", store=Path("/nonexistent"), env={"COLUMNS": "250"})
    assert done.returncode == 0, done.stderr
    return done.stdout


def command_of(text: str) -> str:
    words = text.split()
    verb = len(words) > 1 and words[0] == "kerncap" and re.fullmatch(r"[a-z]+", words[1])
    return " ".join(words[:2] if verb else words[:1])


@pytest.mark.parametrize(
    "row", [*COMMANDS, *PYTHON, *rows("Result lines"), *FILES, *VARIABLES], ids=lambda r: r[0]
)
def test_each_row_has_an_answer_and_what_is_not_the_same_a_note(row):
    assert row[1] in ANSWERS
    assert row[1] == "same" or row[-1]


@pytest.mark.parametrize("row", COMMANDS, ids=lambda row: row[0])
def test_each_flag_of_the_page_is_in_the_help(row):
    first, *others = code(row[0])
    command = command_of(first)
    if command == "kerncap-mcp":
        assert row[1] == "refused"
        return
    accepted = set(FLAG.findall(help_of(command)))
    assert set(FLAG.findall(" ".join([first, *others]))) <= accepted


@pytest.mark.parametrize("command", DOCUMENTED_FLAGS)
def test_each_flag_that_was_ever_documented_is_on_the_page(command):
    on_page = " ".join(row[0] for row in COMMANDS if command_of(code(row[0])[0]) == command)
    assert set(FLAG.findall(on_page)) >= set(DOCUMENTED_FLAGS[command].split())


@pytest.mark.parametrize("row", PYTHON, ids=lambda row: row[0])
def test_each_method_and_attribute_of_the_page_exists(row):
    owner, _, rest = code(row[0])[0].partition(".")
    if not rest:
        assert owner == "Kerncap()"
        assert isinstance(kerncap.Kerncap(), kerncap.Kerncap)
        return
    name, _, parameters = rest.partition("(")
    if parameters:
        known = list(inspect.signature(getattr(kerncap.Kerncap, name)).parameters)[1:]
        wanted = parameters.removesuffix(")").split(", ")
        assert known[: len(wanted)] == wanted
    else:
        assert name in {field.name for field in dataclasses.fields(getattr(kerncap, owner))}


@pytest.mark.parametrize("result", DOCUMENTED_RESULTS)
def test_each_attribute_that_was_ever_documented_is_on_the_page(result):
    on_page = {code(row[0])[0] for row in PYTHON}
    assert on_page >= {f"{result}.{name}" for name in DOCUMENTED_RESULTS[result].split()}


def printed_lines() -> list[str]:
    """Every line that scripts look for, made from example manifests."""
    replay, validation = manifest_examples.replay(), manifest_examples.validation()
    (bad,) = validation.regions
    good = bad.model_copy(update={"passed": True, "base_address": 4096, "max_absolute_error": 0.5})
    crashed = replay.model_copy(
        update={"outcome": ReplayOutcome.CRASHED, "explanation": "x", "exit_signal": 11, "timing": None}
    )
    made = [lines.replay_footer(replay, 3), lines.replay_footer(crashed, 3)]
    for mode in Mode:
        bounds = Tolerance(absolute=1e-3) if mode is Mode.NUMERIC else None
        for passed, regions in ((True, (good,)), (False, (good, bad))):
            changes = {"mode": mode, "passed": passed, "regions": regions, "tolerance": bounds}
            made.append(lines.validation_footer(validation.model_copy(update=changes)))
    return [*made, lines.NO_COMPILE_COMMAND]


def test_result_lines_are_those_of_the_page():
    number = r"(\d[\d.]*(e[-+]\d+)?|inf|nan)"
    patterns = [re.compile(re.escape(code(row[0])[0]).replace("…", number)) for row in rows("Result lines")]
    made = printed_lines()
    for line in made:
        assert any(pattern.fullmatch(line) for pattern in patterns), line
    for pattern in patterns:
        assert any(pattern.fullmatch(line) for line in made), pattern.pattern


def test_result_lines_to_the_letter():
    assert printed_lines()[:2] == [
        "Result: PASS  replayed 3 iteration(s) OK (avg = 0.0 us, min = 0.0, max = 0.0)",
        "Result: FAIL  (replay exited with code 139)",
    ]
    assert "Result: PASS  (smoke)" in printed_lines()
    assert "Result: FAIL  (byte-exact, 1 of 2 regions identical, 1 differ)" in printed_lines()
    assert "Result: PASS  (numeric, max_error = 0.5, atol = 0.001)" in printed_lines()


@cache
def rendered():
    capture = manifest_examples.capture()
    assert all(isinstance(variable, ModuleVariable) for variable in capture.module_variables)
    source = manifest_examples.source()
    header = source.files[0].model_copy(update={"path": "/home/somebody/app/a.h", "is_header": True})
    found = source.model_copy(update={"files": (*source.files, header)})
    return render([Part(manifest_examples.digest("capture"), capture, found)])


@pytest.mark.parametrize("row", [row for row in FILES if "make " not in row[0]], ids=lambda row: row[0])
def test_each_file_of_the_page_is_in_a_project(row):
    project = rendered()
    path = code(row[0])[0]
    paths = {*project.files, *project.copied}
    made_later = {"optimized.hsaco", "candidate.hsaco", "output/"}
    there = any(each == path or each.startswith(path) for each in paths)
    assert there == (row[1] != "refused" and path not in made_later)
    if code(row[2]):
        assert set(json.loads(project.files[path])) >= set(code(row[2]))


def test_lists_in_the_project_have_their_documented_fields():
    files = rendered().files
    region = json.loads(files["capture/memory_regions.json"])["regions"][0]
    assert region.keys() >= {"base", "size", "is_pool", "is_vmem", "contains_kernarg"}
    variable = json.loads(files["capture/module_variables.json"])["variables"][0]
    assert variable.keys() >= {"executable_sha256", "name", "size", "blob"}
    slot = json.loads(files["capture/metadata.json"])["kernarg_slots"][0]
    assert slot.keys() >= {"offset", "size", "value_kind", "value_type", "address_space", "name"}
    kernarg = json.loads(files["capture/metadata.json"])["kernarg_raw"]
    assert files["capture/kernarg.bin"] == bytes.fromhex(kernarg)


@pytest.mark.parametrize("row", [row for row in FILES if "make " in row[0]], ids=lambda row: row[0])
def test_each_make_target_of_the_page_exists(row):
    target = code(row[0])[0].removeprefix("make ")
    makefile = rendered().files["Makefile"].decode()
    assert re.search(rf"^{target}:", makefile, re.MULTILINE)


@pytest.mark.parametrize("row", VARIABLES, ids=lambda row: row[0])
def test_each_refused_variable_is_read_nowhere(row):
    name = code(row[0])[0]
    assert name.startswith("KERNCAP_") or row[1] == "same"
    if row[1] != "refused":
        return
    read = subprocess.run(
        [
            "grep",
            "-rlw",
            name,
            TOP / "kerncap_stages",
            TOP / "native",
            "--include=*.py",
            "--include=*.[ch]pp",
        ],
        capture_output=True,
        text=True,
        check=False,
    ).stdout.splitlines()
    # The one that users were told of is looked at, to say that it has no effect.
    told = ["kerncap_cli.py"] if name == "KERNCAP_SNAPSHOT_CHUNK_BYTES" else []
    assert [Path(path).name for path in read] == told


def test_both_names_give_the_same_class_and_neither_loads_anything_heavy():
    program = (
        "import sys, kerncap, kerncap_stages; assert kerncap.Kerncap is kerncap_stages.Kerncap; "
        "assert not {'rich', 'pydantic', 'numpy', 'typer'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-P", "-c", program], check=True, env=os.environ)


@pytest.mark.parametrize("name", ["profile", "extract", "replay", "validate"])
def test_each_method_states_its_errors(name):
    assert "Raises" in (getattr(kerncap.Kerncap, name).__doc__ or "")
