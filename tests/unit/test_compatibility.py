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
from compatibility_page import assert_types, code, rows

import kerncap
from kerncap_stages import errors
from kerncap_stages.generate.render import Part, render
from kerncap_stages.generate.triton_project import TritonProject
from kerncap_stages.manifests.memory import ModuleVariable

TOP = Path(__file__).parents[2]
ANSWERS = {"same", "same, note", "refused"}
DOCUMENTED_FLAGS = {
    "kerncap": "--verbose -v --version",
    "kerncap profile": "--output -o --timeout",
    "kerncap extract": "--cmd --source-dir --output -o --language --dispatch --defines -D --timeout "
    "--triton-backend",
    "kerncap replay": "--hsaco --iterations -n --json --dump-output --hip-launch",
    "kerncap validate": "--tolerance -t --rtol --hsaco --verbose -v",
    "kerncap-replay": "--hsaco --iterations -n --json --dump-output --hip-launch --no-recopy",
    "kerncap-mcp": "--transport --host --port --path",
}
NEEDED = object()  # an attribute without a default
# Attributes in the order in which a constructor takes them: type and default.
DOCUMENTED_RESULTS = {
    "KernelStat": {
        "name": ("str", NEEDED),
        "calls": ("int", NEEDED),
        "total_duration_ns": ("int", NEEDED),
        "avg_duration_ns": ("int", NEEDED),
        "percentage": ("float", NEEDED),
        "min_duration_ns": ("int", 0),
        "max_duration_ns": ("int", 0),
        "stddev_ns": ("float", 0.0),
    },
    "ExtractResult": {
        "output_dir": ("str", NEEDED),
        "capture_dir": ("str", NEEDED),
        "language": ("str | None", None),
        "has_source": ("bool", False),
        "generated_files": ("list[str]", []),
    },
    "ReplayResult": {
        "returncode": ("int", NEEDED),
        "stdout": ("str", NEEDED),
        "stderr": ("str", NEEDED),
        "timing_us": ("float | None", None),
    },
    "ValidationResult": {
        "passed": ("bool", NEEDED),
        "details": ("list[str]", NEEDED),
        "max_error": ("float", 0.0),
        "mode": ("str", "smoke"),
        "region_lines": ("list[str]", []),
        "regions_total": ("int | None", None),
        "regions_identical": ("int | None", None),
        "outputs_total": ("int | None", None),
        "outputs_passed": ("int | None", None),
        "atol": ("float | None", None),
    },
}
FLAG = re.compile(r"(?<![\w-])--?[A-Za-z][A-Za-z-]*")


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
    "row",
    [*COMMANDS, *PYTHON, *rows("Result lines"), *rows("JSON"), *FILES, *VARIABLES],
    ids=lambda r: r[0],
)
def test_each_row_has_an_answer_and_what_is_not_the_same_a_note(row):
    assert row[1] in ANSWERS
    assert row[1] == "same" or row[-1]


@pytest.mark.parametrize("row", COMMANDS, ids=lambda row: row[0])
def test_each_flag_of_the_page_is_in_the_help(row):
    first, *others = code(row[0])
    command = command_of(first)
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
        name, _, kind = rest.partition(": ")
        assert {field.name: field.type for field in dataclasses.fields(getattr(kerncap, owner))}[name] == kind


@pytest.mark.parametrize("result", DOCUMENTED_RESULTS)
def test_each_attribute_that_was_ever_documented_is_on_the_page_with_its_type(result):
    on_page = {code(row[0])[0] for row in PYTHON}
    assert on_page >= {f"{result}.{name}: {kind}" for name, (kind, _) in DOCUMENTED_RESULTS[result].items()}


@pytest.mark.parametrize("result", DOCUMENTED_RESULTS)
def test_constructors_take_the_documented_attributes_first_with_their_defaults(result):
    documented = DOCUMENTED_RESULTS[result]
    kind = getattr(kerncap, result)
    assert [field.name for field in dataclasses.fields(kind)][: len(documented)] == list(documented)
    needed = [name for name, (_, default) in documented.items() if default is NEEDED]
    made = kind(*needed)
    for name, (_, default) in documented.items():
        assert getattr(made, name) == (name if default is NEEDED else default)


def test_errors_are_what_callers_of_the_documented_class_catch():
    assert issubclass(errors.KerncapError, RuntimeError)
    timed_out = errors.ProgramTimedOut("too slow", hint="a larger --timeout")
    assert isinstance(timed_out, errors.ProgramError)
    assert isinstance(timed_out, TimeoutError)
    assert (str(timed_out), timed_out.hint) == ("too slow", "a larger --timeout")


@cache
def rendered():
    capture = manifest_examples.capture()
    assert all(isinstance(variable, ModuleVariable) for variable in capture.module_variables)
    source = manifest_examples.source()
    header = source.files[0].model_copy(update={"path": "/home/somebody/app/a.h", "is_header": True})
    found = source.model_copy(update={"files": (*source.files, header)})
    contents = {variable.pre.digest: b"contents" for variable in capture.module_variables}
    return render([Part(manifest_examples.digest("capture"), capture, found, contents=contents)])


@cache
def rendered_triton():
    kernel = manifest_examples.triton_kernel()
    example = manifest_examples.capture()
    launch = example.launch.model_copy(update={"triton": manifest_examples.triton_launch()})
    capture = example.model_copy(update={"kernel": kernel, "launch": launch})
    project = TritonProject(capture, {"kernel_variant.py": b"", "triton_sources/shapes.py": b""}, b"")
    return render([Part(manifest_examples.digest("capture"), capture, None, triton=project)])


@pytest.mark.parametrize("row", [row for row in FILES if "make " not in row[0]], ids=lambda row: row[0])
def test_each_file_of_the_page_is_in_a_project(row):
    project = rendered()
    path = code(row[0])[0]
    triton = rendered_triton()
    paths = {*project.files, *project.copied, *triton.files, *triton.copied}
    made_later = {"optimized.hsaco", "candidate.hsaco", "output/"}
    there = any(each == path or each.startswith(path) for each in paths)
    assert there == (row[1] != "refused" and path not in made_later)
    if code(row[2]):
        files = project.files if path in project.files else triton.files
        assert_types(json.loads(files[path]), row[2])


def test_files_of_the_project_to_the_letter():
    files = rendered().files
    capture = manifest_examples.capture()
    metadata = json.loads(files["capture/metadata.json"])
    for symbol in (metadata["kernel_symbol"], json.loads(files["capture/dispatch.json"])["mangled_name"]):
        assert symbol == f"{capture.kernel.mangled_name}.kd"
    assert metadata["kernarg_raw"] == "kernarg_raw.bin"
    assert files["capture/kernarg_raw.bin"] == files["capture/kernarg.bin"] == bytes.fromhex(capture.kernarg)
    regions = json.loads(files["capture/memory_regions.json"])["regions"]
    assert [region["base"] for region in regions] == [region.base_address for region in capture.regions]


@pytest.mark.parametrize("row", [row for row in FILES if "make " in row[0]], ids=lambda row: row[0])
def test_each_make_target_of_the_page_exists(row):
    target, is_variable, _ = code(row[0])[0].removeprefix("make ").partition("=")
    makefile = rendered().files["Makefile"].decode()
    assert re.search(rf"^{target} \?=" if is_variable else rf"^{target}:", makefile, re.MULTILINE)


@pytest.mark.parametrize("features", ["", ":sramecc+:xnack-"])
def test_gpu_arch_is_the_processor_alone_and_features_follow_it(tmp_path, features):
    capture = manifest_examples.capture()
    code_object = capture.kernel.code_object.model_copy(
        update={"isa": f"amdgcn-amd-amdhsa--gfx90a{features}"}
    )
    kernel = capture.kernel.model_copy(update={"code_object": code_object})
    part = Part(manifest_examples.digest("capture"), capture.model_copy(update={"kernel": kernel}), None)
    makefile = tmp_path / "Makefile"
    makefile.write_bytes(render([part]).files["Makefile"])
    assert "\nGPU_ARCH ?= gfx90a\n" in makefile.read_text()
    command = ["make", "-s", "-f", str(makefile), "--eval", "shown:;@echo $(TARGET)", "shown"]
    for added, processor in (([], "gfx90a"), (["GPU_ARCH=gfx942"], "gfx942")):
        done = subprocess.run([*command, *added], capture_output=True, text=True, check=True)
        assert done.stdout == f"{processor}{features}\n"


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


@pytest.mark.parametrize("row", rows("Other differences"), ids=lambda row: row[0][:40])
def test_each_other_difference_names_tests_that_exist(row):
    names = code(row[2])
    assert names
    for name in names:
        found = subprocess.run(
            ["grep", "-rlE", f"^def {name}\\(", TOP / "tests", "--include=test_*.py"],
            capture_output=True,
            check=False,
        )
        assert found.returncode == 0, name
