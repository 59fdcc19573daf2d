"""kc-extract: every step in one command, and honest about what a step could not do."""

from __future__ import annotations

import json
import re
import shutil
import sys

import pytest


def test_the_top_kernel_becomes_a_checked_project(shell, application):
    done = shell(f"kc-extract --source-dir {application} --output project --json -- {application}/demo 200")
    made = json.loads(done.out)
    steps = {step["name"]: step for step in made["steps"]}
    assert list(steps) == ["profile", "capture", "locate", "generate", "validate"]
    assert made["passed"] is True
    assert made["can_recompile"] is True
    assert made["kernel"].startswith("demo::add_rows(")
    # Each step's artifact is in the store, made from the one before.
    listed = shell("kc-store ls --quiet").out.split()
    assert {step["digest"] for step in steps.values()} <= set(listed)
    for child, parent in (("capture", "profile"), ("locate", "capture"), ("generate", "locate")):
        manifest = json.loads(shell(f"kc-show --json {steps[child]['digest']}").out)
        assert manifest["parents"] == [f"manifest:{steps[parent]['digest']}"]
    top = json.loads(shell(f"kc-show --json {steps['profile']['digest']}").out)["kernels"][0]
    assert made["kernel"] == top["name"]
    assert all(f"{name} ..." in done.err for name in steps)


def test_it_is_a_stage_among_stages(shell, application):
    done = shell(
        f"kc-profile -- {application}/demo | kc-extract --kernel add_rows --source-dir {application} "
        "--output project | kc-replay --json"
    )
    replay = json.loads(done.out)
    assert replay["kind"] == "replay"
    assert replay["matches_golden"] is True
    assert "Result: PASS" in done.err


def test_one_line_its_product_goes_to_standard_output(shell, application):
    words = f"kc-extract --no-profile --kernel demo::add_rows --dispatch 1 -- {application}/demo"
    done = shell(words)
    (digest,) = done.out.splitlines()
    assert json.loads(shell(f"kc-show --json {digest}").out)["kind"] == "reproducer"
    assert "not needed" in done.err
    project = shell.folder / "isolated/add_rows"
    assert json.loads((project / "capture/dispatch.json").read_text())["dispatch_index"] == 1


def test_without_source_it_says_why_and_makes_what_can_be_made(shell, application):
    (shell.folder / "empty").mkdir()
    done = shell(
        f"kc-extract --no-profile -k add_rows --source-dir empty -o project --json -- {application}/demo"
    )
    made = json.loads(done.out)
    assert made["can_recompile"] is False
    assert made["passed"] is True
    (locate,) = [step for step in made["steps"] if step["name"] == "locate"]
    assert "no definition of" in locate["notes"][0]
    assert locate["notes"][0].split(";")[0] in done.err
    assert "next: edit project/kernel_variant.s, the kernel's instructions" in done.err
    assert "make -C project assemble validate-variant bench" in done.err
    assert not (shell.folder / "project/kernel_variant.cpp").exists()
    assert (shell.folder / "project/capture/dispatch.json").exists()


LONG_NAME = """#include <hip/hip_runtime.h>
template <class A, class B> struct Pair {};
using Four = Pair<Pair<int, float>, Pair<float, int>>;
using Sixteen = Pair<Pair<Four, Four>, Pair<Four, Four>>;
template <class T> __global__ void fill(float* x, Sixteen) { x[threadIdx.x] = 1; }
int main() {
  float* x;
  if (hipMalloc(&x, 256)) return 2;
  fill<Sixteen><<<1, 64>>>(x, {});
  return hipDeviceSynchronize();
}
"""


def test_lines_for_people_shorten_long_names(shell):
    (shell.folder / "long.hip").write_text(LONG_NAME)
    shell.run(["hipcc", "--offload-arch=gfx90a", "long.hip", "-o", "long"], folder=shell.folder)
    done = shell("kc-extract -k fill --source-dir . --output project --json -- ./long")
    made = json.loads(done.out)
    assert len(made["kernel"]) > 400
    (profiled, captured) = [line for line in done.err.splitlines() if "fill<" in line]
    assert len(profiled) < 250
    assert len(captured) < 250


def test_other_kernels_of_the_name_that_was_given_are_listed(shell):
    (shell.folder / "two.hip").write_text(
        "#include <hip/hip_runtime.h>\n"
        "template <int N> __global__ void fill(float* x) { for (int i = 0; i < 9 * N; ++i) x[i] += N; }\n"
        "int main() {\n  float* x;\n  if (hipMalloc(&x, 4096)) return 2;\n"
        "  fill<1><<<1, 1>>>(x);\n  fill<99><<<1, 1>>>(x);\n  return hipDeviceSynchronize();\n}\n"
    )
    shell.run(["hipcc", "--offload-arch=gfx90a", "two.hip", "-o", "two"], folder=shell.folder)
    done = shell("kc-extract -k fill -o project --no-validate -- ./two")
    assert re.search(r"2 kernels match 'fill'; the others: void fill<\d+>\(float\*\)\n", done.err), done.err
    assert "kernels match" not in shell("kc-extract -k 'fill<1>' -o one --no-validate -- ./two").err


def test_an_edit_survives_extracting_again(shell, application):
    line = f"kc-extract --no-profile -k add_rows -s {application} -o project %s -- {application}/demo"
    shell(line % "--no-validate")
    file = shell.folder / "project/kernel_variant.cpp"
    file.write_text(file.read_text() + "// mine\n")
    done = shell(line % "--no-validate")
    assert "kept your edit of kernel_variant.cpp" in done.err
    assert file.read_text().endswith("// mine\n")
    shell(line % "--no-validate --force")
    assert not file.read_text().endswith("// mine\n")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("--output used -- touch ran", 2, "is not a generated project"),
        ("--output used/file -- touch ran", 2, "is a file"),
        ("--source-dir absent -- touch ran", 2, "no such source folder"),
        ("--source-dir used/file -- touch ran", 2, "--source-dir used/file: it is a file"),
        ("--compile-commands absent.json -- touch ran", 2, "no such file"),
        ("--no-profile -- touch ran", 2, "needs a kernel"),
        ("--grid 4 --grid-blocks 5 -- touch ran", 2, "--grid-blocks was given several values: 4, 5"),
        ("-D 1x=2 -- touch ran", 2, "-D 1x=2: '1x' is no name of a macro"),
        ("--exact --regex --kernel x -- touch ran", 2, "exclude each other"),
        ("@profile -- touch ran", 2, "not both"),
        ("--", 2, "no program given"),
        ("-- ./no-such-program", 5, "cannot run ./no-such-program"),
        ("-- false", 5, "ended with exit code 1"),
        ("-- true", 1, "never used a GPU"),
        ("@nothing", 3, ""),
    ],
)
def test_refusals_come_first_and_say_what_to_do(shell, words, code, said):
    (shell.folder / "used").mkdir()
    (shell.folder / "used/file").write_text("mine")
    done = shell(f"kc-extract {words}", code=code)
    assert said in done.err
    assert done.out == ""
    assert not (shell.folder / "ran").exists()
    assert (shell.folder / "used/file").read_text() == "mine"


def test_a_name_that_nothing_matches_is_answered_with_close_ones(shell, application):
    done = shell(f"kc-extract --kernel add_row_s -- {application}/demo", code=1)
    assert "demo::add_rows" in done.err


HOSTILE = [
    "$(touch pwned)",
    "`touch pwned`",
    "a\nall:\n\ttouch pwned",
    "'; touch pwned; '",
    "../../up",
    "\x1b[2J",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_stay_text(shell, application, tmp_path_factory, name):
    place = tmp_path_factory.mktemp("hostile")
    folder = place / name.replace("/", "_")
    done = shell.run(["kerncap", "extract", name, "--cmd", f"{application}/demo"], code=1, folder=place)
    assert "\x1b" not in done.out + done.err
    words = ["kc-extract", "--no-profile", "-k", "add_rows", "-D", f"X={name}", "-o", str(folder)]
    done = shell.run([*words, "--source-dir", str(application), "--", f"{application}/demo"], folder=place)
    assert "\x1b" not in done.out + done.err
    # Not hipcc, which makes a shell command of its own arguments.
    clang = shutil.which("clang++") or "clang++-21"
    shell.run(["make", "-s", "recompile", f"HIPCC={clang}"], code=None, folder=folder)
    shell.run(["kerncap", "validate", str(folder)], code=None, folder=place)
    for where in (place, shell.folder, application):
        assert not list(where.rglob("pwned"))
    assert sorted(path.name for path in place.iterdir()) == [folder.name]


@pytest.mark.parametrize("command", ["kc-extract", "kerncap", "kerncap-replay"])
def test_shells_complete_its_words(shell, command):
    shell.variables |= {f"_{command.upper().replace('-', '_')}_COMPLETE": "complete_bash", "COMP_CWORD": "1"}
    shell.variables["COMP_WORDS"] = (
        f"{command} {'ex' if command == 'kerncap' else '--hs' if 'replay' in command else '--ker'}"
    )
    done = shell(command)
    assert done.out.split() == [{"kerncap": "extract", "kerncap-replay": "--hsaco"}.get(command, "--kernel")]


def test_shells_complete_kernels_of_the_latest_profile(shell, application):
    shell(f"kc-profile -- {application}/demo")
    words = {
        "_KC_EXTRACT_COMPLETE": "complete_bash",
        "COMP_WORDS": "kc-extract --kernel demo::a",
        "COMP_CWORD": "2",
    }
    shell.variables |= words
    assert shell("kc-extract").out.split() == ["demo::add_rows"]


ON_A_TERMINAL = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))"


def test_on_a_terminal_the_bar_is_gone_before_the_next_step(shell, application):
    words = ["kc-extract", "--no-profile", "--no-validate", "-k", "add_rows", "-o", "project"]
    program = [sys.executable, "-c", ON_A_TERMINAL, *words, "--", f"{application}/demo"]
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shell.run(program).out).replace("\r", "\n")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    steps = [line for line in lines if line.endswith(" ...")]
    assert steps == [f"{name} ..." for name in ("profile", "capture", "locate", "generate", "validate")]
    bars = [index for index, line in enumerate(lines) if re.match("capture +[━╸╺]", line)]
    assert all(index < lines.index("locate ...") for index in bars)
