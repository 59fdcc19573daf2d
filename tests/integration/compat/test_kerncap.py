"""The documented command and the documented class, as their users call them."""

from __future__ import annotations

import json
import shutil
import sys

import pytest

LOOP = """
import os, subprocess, sys
from kerncap import Kerncap

kc = Kerncap()
app, source_dir = sys.argv[1:]
profile = kc.profile([app])
for kernel in profile[:5]:
    print(f"{kernel.name}: {kernel.total_duration_ns / 1e6:.1f} ms ({kernel.percentage:.1f}%)")
result = kc.extract(
    "add_rows", cmd=[app], source_dir=source_dir, output="./isolated/add_rows", defines=["UNUSED", "OTHER=1"]
)
print(f"Output: {result.output_dir} has_source: {result.has_source}")
reproducer_dir = result.output_dir
assert {"capture/", "Makefile", "kernel_variant.cpp"} <= set(result.generated_files)
assert all(os.path.exists(os.path.join(result.output_dir, path)) for path in result.generated_files)
assert os.path.isdir(result.capture_dir) and result.language == "hip"
print("Passed:", kc.validate(reproducer_dir).passed, kc.validate(reproducer_dir).mode)
subprocess.run(["make", "recompile"], cwd=reproducer_dir, check=True)
baseline = kc.replay(reproducer_dir)
variant = kc.replay(reproducer_dir, hsaco=os.path.join(reproducer_dir, "optimized.hsaco"), iterations=3)
print(f"Baseline: {baseline.timing_us:.1f} us  Variant: {variant.timing_us:.1f} us")
print(f"Speedup: {baseline.timing_us / variant.timing_us:.2f}x")
assert baseline.returncode == variant.returncode == 0
average, least, most, footer = variant.stdout.splitlines()
assert float(average.removeprefix("Average GPU time: ").removesuffix(" us")) == round(variant.timing_us, 3)
assert least.startswith("Min: ") and most.startswith("Max: ")
assert footer.startswith("Result: PASS  replayed 3 iteration(s) OK (avg = ")
assert kc.replay(result.capture_dir).returncode == 0
assert kc.validate(result.capture_dir).mode == "byte-exact"
assert variant.software_gpu and "nothing about hardware" in variant.stderr
result = kc.validate(reproducer_dir, hsaco=os.path.join(reproducer_dir, "optimized.hsaco"))
print("Passed:", result.passed)
assert (result.mode, result.regions_total, result.regions_identical) == ("byte-exact", 1, 1)
assert (result.max_error, result.atol, result.outputs_total, result.outputs_passed) == (0.0, None, 1, 1)
assert result.result_line == "Result: PASS  (byte-exact, 1 of 1 regions identical)"
assert all(line in result.details for line in result.region_lines)
assert all(line.startswith("  PASS  result (float*) in region 0x") for line in result.region_lines)
loose = kc.validate(reproducer_dir, tolerance=1e-3, rtol=1e-2)
assert (loose.mode, loose.atol, loose.passed) == ("numeric", 1e-3, True)
with open("reference.py", "w") as file:
    file.write(
        "import numpy as np\\n"
        "def reference(args):\\n"
        "    rows, columns = args['shape'].view(np.int32)[:2]\\n"
        "    matrix = args['matrix'][:rows * columns].reshape(rows, columns)\\n"
        "    return {'result': args['result'][:rows] + matrix @ args['vector'][:columns]}\\n"
    )
exact = kc.validate(reproducer_dir, tolerance=1e-3, rtol=1e-2, reference="reference.py")
assert exact.passed, exact.details
"""

REFUSALS = """
import sys
from kerncap import Kerncap
from kerncap_stages.errors import AnswerIsNo, ArtifactError, KerncapError, ProgramError, UsageError

kc = Kerncap(store="own-store")
app, project = sys.argv[1:]
for error, call in [
    (UsageError, lambda: kc.profile([])),
    (UsageError, lambda: kc.profile("")),
    (UsageError, lambda: kc.profile("A=1 ./app")),
    (UsageError, lambda: kc.profile("./app | tee log")),
    (ProgramError, lambda: kc.profile(["./no-such-program"])),
    (AnswerIsNo, lambda: kc.profile(["true"])),
    (UsageError, lambda: kc.extract("k", [app], language="fortran")),
    (UsageError, lambda: kc.extract("k", [app], triton_backend="cuda")),
    (UsageError, lambda: kc.extract("k", [app], dispatch=-2)),
    (UsageError, lambda: kc.extract("k", [app], source_dir="no-such-folder")),
    (AnswerIsNo, lambda: kc.extract("no_such_kernel", [app])),
    (ArtifactError, lambda: kc.replay("no-such-folder")),
    (ArtifactError, lambda: kc.validate(".")),
    (UsageError, lambda: kc.replay(project, iterations=0)),
    (UsageError, lambda: kc.profile([app], timeout=0)),
    (UsageError, lambda: kc.extract("k", [app], timeout=float("nan"))),
    (UsageError, lambda: kc.replay(project, timeout=float("inf"))),
    (UsageError, lambda: kc.validate(project, timeout=float("inf"))),
    (UsageError, lambda: kc.validate(project, hsaco="no-such-file")),
    (UsageError, lambda: kc.validate(project, tolerance=1, dtype="float")),
]:
    try:
        call()
    except error as raised:
        assert isinstance(raised, KerncapError) and str(raised), raised
    else:
        raise SystemExit(f"no {error.__name__}")
"""

INCOMPLETE = """
import sys, warnings
from kerncap import Kerncap

command, said = sys.argv[1:], []
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    assert Kerncap().profile(command)
    assert Kerncap().profile(command, warn=said.append)
(warning,) = caught
assert warning.category is RuntimeWarning and warning.filename == "<string>"
assert said == [str(warning.message)]
print(said[0])
"""


def test_the_documented_loop_runs_from_python(shell, application):
    done = shell.run([sys.executable, "-P", "-c", LOOP, f"{application}/demo", str(application)])
    assert "has_source: True" in done.out
    assert "Passed: True smoke" in done.out
    assert "Speedup: " in done.out


def test_errors_are_classes_that_say_what_to_do(shell, application, extracted):
    shell.run([sys.executable, "-P", "-c", REFUSALS, f"{application}/demo", str(extracted[1])])


def test_profile_json_has_the_documented_fields(shell, application):
    done = shell(f"kerncap profile --output profile.json --json -- {application}/demo")
    written = json.loads((shell.folder / "profile.json").read_text())
    assert written["cmd"] == f"{application}/demo"
    assert written.keys() == {"cmd", "timestamp", "kernels"}
    assert [kernel["name"] for kernel in written["kernels"]] == [
        kernel["name"] for kernel in json.loads(done.out)["kernels"]
    ]
    assert sum(kernel["percentage"] for kernel in written["kernels"]) == pytest.approx(100)


def test_what_makes_a_profile_incomplete_is_passed_on(shell, application):
    says = "the program ended with exit code 3; the profile holds what ran until then"
    failing = f"{application}/demo; exit 3"
    done = shell(f"kerncap profile -- sh -c '{failing}'")
    assert f"kerncap: warning: {says}" in done.err
    assert "demo::add_rows" in done.out
    assert shell.run([sys.executable, "-P", "-c", INCOMPLETE, "sh", "-c", failing]).out.strip() == says
    made = json.loads(shell(f"kc-extract -k demo::fill -o project --json -- sh -c '{failing}'").out)
    assert says in made["steps"][0]["notes"]


def test_extract_ends_with_what_to_do_next(extracted):
    _, project, done = extracted
    assert done.out.splitlines()[0] == f"Output: {project}  has_source: True"
    for word in ("make run", "make recompile", "make run-variant", "kerncap validate ."):
        assert word in done.out


@pytest.mark.parametrize("command", ["kerncap replay", "kerncap-replay"])
def test_replay_takes_its_flags(shell, project, command):
    (project / "optimized.hsaco").write_bytes((project / "capture/kernel.hsaco").read_bytes())
    done = shell(f"{command} ./project --hsaco optimized.hsaco --iterations 4 --dump-output")
    assert done.out.splitlines()[-1].startswith("Result: PASS  replayed 4 iteration(s) OK (avg = ")
    assert list((project / "output").iterdir())
    report = json.loads(shell(f"{command} ./project --json -n 2").out)
    assert report["execution"] == {"iterations": 2, "mode": "stateless"}
    assert report["environment"]["gpu_arch"] == "gfx90a"
    assert report["timing"]["min"] <= report["timing"]["average"] <= report["timing"]["max"]
    assert report["kernel"]["hsaco_path"] == "project/capture/kernel.hsaco"
    through_hip = json.loads(shell(f"{command} ./project --hip-launch --json -n 3").out)
    assert through_hip["result"]["matches_capture"] is True
    assert through_hip["timing"]["average"] > 0


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("kerncap", 2, ""),
        ("kerncap frobnicate", 2, "frobnicate"),
        ("kerncap profile", 2, "CMD"),
        ("kerncap profile -- true", 1, "never used a GPU"),
        ("kerncap profile --timeout nan -- true", 2, "takes seconds"),
        ("kerncap replay ./project --timeout inf", 2, "takes seconds"),
        ("kerncap profile -- ./no-such-program", 1, "cannot run"),
        ("kerncap extract k", 2, "--cmd"),
        ("kerncap extract k --cmd 'A=1 ./app'", 2, "env A=1"),
        ('kerncap extract k --cmd "./app \'x"', 2, "cannot be split"),
        ("kerncap extract k --cmd ./app --triton-backend cuda", 2, "hsa or python"),
        ("kerncap extract k --cmd ./app --language fortran", 2, "hip, cuda or triton"),
        ("kerncap replay ./absent", 1, "does not exist"),
        ("kerncap validate .", 1, "is not a generated project"),
        ("kerncap-replay project --no-recopy", 1, "leave it out"),
        ("kerncap-replay project --no-such-flag", 2, "--no-such-flag"),
        ("kerncap validate project --hsaco absent.hsaco", 2, "no such code object"),
    ],
)
@pytest.mark.usefixtures("project")
def test_exit_codes_are_0_1_and_2(shell, words, code, said):
    done = shell(words, code=code)
    assert said in done.err
    assert done.out == ""


def test_a_kernel_that_faults_is_a_result(shell, project):
    text = (project / "kernel_variant.cpp").read_text()
    place = "  for (int column"
    (project / "kernel_variant.cpp").write_text(text.replace(place, f"  result[1ll << 40] = 1;\n{place}"))
    shell("make -s -C project recompile")
    done = shell("kerncap replay project --hsaco optimized.hsaco", code=1)
    assert done.out.startswith("Result: FAIL  (replay exited with code ")
    assert (
        shell("kerncap validate project", code=1).out.splitlines()[-1].startswith("Result: FAIL  (byte-exact")
    )


def test_an_ignored_variable_is_said_to_be_ignored(shell, application):
    shell.variables["KERNCAP_SNAPSHOT_CHUNK_BYTES"] = "1048576"
    done = shell(f"kerncap extract demo::fill --cmd {application}/demo --output project")
    assert "KERNCAP_SNAPSHOT_CHUNK_BYTES has no effect" in done.err


def test_a_triton_project_says_what_it_lacks(shell, application):
    done = shell(
        f"kerncap extract demo::fill --cmd {application}/demo --language triton --output project --json"
    )
    made = json.loads(done.out)
    assert made["language"] == "triton"
    assert any("reproducer.py" in note for note in made["notes"])


def test_no_argument_of_the_program_is_taken_for_ours(shell):
    program = f"{sys.executable} -c 'import sys; print(sys.argv[1:])' one -- --output x -v"
    for command in (f"kerncap profile -- {program}", f"kerncap profile {program}"):
        assert "['one', '--', '--output', 'x', '-v']" in shell(command, code=1).err
    assert not (shell.folder / "x").exists()


def test_a_verdict_on_a_code_object_that_is_older_than_its_source_says_so(shell, project):
    shell("make -s -C project recompile")
    assert "note" not in shell("kerncap validate project").err
    file = project / "kernel_variant.cpp"
    file.write_text(file.read_text() + "// changed\n")
    done = shell("kerncap validate project")
    assert "kernel_variant.cpp was edited after project/optimized.hsaco was built" in done.err


def test_an_edit_that_does_not_compile_is_never_passed_over(shell, project):
    shell("make -s -C project recompile")
    (project / "kernel_variant.cpp").write_text("no kernel\n")
    shell("make -s -C project recompile", code=2)
    refused = shell("kc-validate project", code=2).err
    assert "kernel_variant.cpp was edited, but no code object was built from it" in refused
    assert "--baseline" in refused
    shell("kc-validate project --baseline")
    said = shell("kerncap validate project")
    assert "kernel_variant.cpp was edited but not built: this verdict is on the captured kernel" in said.err


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize("flag", ["--tolerance nan", "--tolerance inf", "--rtol nan"])
def test_a_bound_that_is_no_number_is_wrong_usage(shell, flag):
    for command in ("kerncap validate project", "kc-validate project"):
        assert "is not a finite number" in shell(f"{command} {flag}", code=2).err
    assert "ULP bound" in shell("kc-validate project --ulp 99999999999999999999", code=2).err


def test_a_project_is_shown_by_its_folder(shell, project):
    assert "add_rows" in shell("kc-show project").out
    digest = json.loads((project / "capture/project.json").read_text())["reproducer"]
    assert shell("kc-show --json . | sha256sum", folder=project).out.split()[0] == digest


def test_a_project_without_its_store_says_what_to_do(shell, project):
    shutil.rmtree(project / "capture/store")
    for command in ("kc-validate project", "kc-show project", "kc-replay project"):
        assert "run kc-generate again" in shell(command, code=3).err


@pytest.mark.usefixtures("project")
def test_a_report_that_cannot_be_written_is_told_first(shell):
    (shell.folder / "taken").write_text("a file")
    said = shell("kc-validate project --report taken", code=2)
    assert "taken is not a folder" in said.err
    assert "Result" not in said.err


def test_an_empty_kernel_name_is_wrong_usage(shell, application):
    assert "name of a kernel" in shell(f"kerncap extract '' --cmd {application}/demo", code=2).err


def test_a_candidate_is_taken_before_what_was_rebuilt(shell, project):
    shell("make -s -C project recompile")
    assert "(byte-exact" in shell("kerncap validate project").out
    (project / "candidate.hsaco").write_bytes(b"no code object")
    for command in ("kerncap validate project", "kc-validate project"):
        assert "candidate.hsaco" in shell(command, code=2).err
