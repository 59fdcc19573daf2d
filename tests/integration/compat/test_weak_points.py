"""What is known to go wrong elsewhere, each tried through the documented command."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

IN_MEMORY = "    result[row] += matrix[row * shape.columns + column] * vector[column];"
SUM_LAST = """    sum += matrix[row * shape.columns + column] * vector[column];
  result[row] += sum;"""


def edit(project: Path, old: str, new: str) -> None:
    file = project / "kernel_variant.cpp"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def dispatch_of(project: Path) -> int:
    return json.loads((project / "capture/dispatch.json").read_text())["dispatch_index"]


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ("if (shape.rows < 0)", "nothing"),
        ("if (row % 2)", "half of it"),
    ],
)
def test_a_variant_that_writes_less_fails(shell, project, change, what):
    # The state before the kernel is what a replay starts from: what is not written stays as it was.
    edit(project, IN_MEMORY, f"    {change}\n{IN_MEMORY}")
    shell("make -s -C project recompile")
    done = shell("kerncap validate project", code=1)
    assert done.out.splitlines()[-1] == "Result: FAIL  (byte-exact, 0 of 1 regions identical, 1 differ)", what
    assert "  FAIL  result (float*) in region 0x" in done.out
    assert "where bytes differ" in done.out


@pytest.mark.usefixtures("project")
def test_an_in_place_kernel_is_replayed_on_what_it_was_given(shell):
    # add_rows adds to its own output: run on its own results it would give other ones.
    for _ in range(2):
        report = json.loads(shell("kerncap replay project --iterations 3 --json").out)
        assert report["result"]["matches_capture"] is True


def test_extracting_into_a_used_folder_never_returns_the_old_capture(shell, application):
    for dispatch in (0, 2):
        shell(
            f"kerncap extract demo::add_rows --cmd {application}/demo --dispatch {dispatch} "
            f"--source-dir {application} --output project"
        )
        assert dispatch_of(shell.folder / "project") == dispatch
    (shell.folder / "project/optimized.hsaco").write_bytes(b"built for add_rows")
    done = shell(
        f"kerncap extract demo::fill --cmd {application}/demo --source-dir {application} --output project"
    )
    assert "optimized.hsaco was made for another kernel" in done.err
    assert (
        json.loads((shell.folder / "project/capture/dispatch.json").read_text())["mangled_name"].find("fill")
        > 0
    )
    assert shell("kerncap validate project").out.splitlines()[-1] == "Result: PASS  (smoke)"


def test_a_failed_extraction_leaves_the_project_as_it_was(shell, project, application):
    before = dispatch_of(project)
    shell(f"kerncap extract no_such_kernel --cmd {application}/demo --output project", code=1)
    shell(f"kerncap extract demo::add_rows --cmd '{application}/demo' --dispatch 99 --output project", code=1)
    assert dispatch_of(project) == before
    assert shell("kerncap validate project").out.splitlines()[-1] == "Result: PASS  (smoke)"


def test_tolerances_count_and_sums_in_another_order_pass_within_them(shell, project):
    edit(project, IN_MEMORY, SUM_LAST)
    edit(project, "  for (int column", "  float sum = 0.0f;\n  for (int column")
    shell("make -s -C project recompile")
    assert "byte-exact" in shell("kerncap validate project", code=1).out
    loose = shell("kerncap validate project --tolerance 1e-2 --rtol 1e-4")
    assert loose.out.splitlines()[-1].startswith("Result: PASS  (numeric, max_error = ")
    assert loose.out.splitlines()[-1].endswith(", atol = 0.01)")
    tight = shell("kerncap validate project --tolerance 0 --rtol 0", code=1)
    assert tight.out.splitlines()[-1].startswith("Result: FAIL  (numeric, 1 of 1 outputs differ, max_err")
    assert shell("kerncap validate project --rtol 1e-4 --dtype fp32").code == 0


def test_a_replay_without_output_is_no_pass(shell, project):
    (project / "optimized.hsaco").write_bytes(b"")
    for command in ("kerncap validate project", "kerncap replay project --hsaco optimized.hsaco"):
        done = shell(command, code=None)
        assert done.code in (1, 2)
        assert "PASS" not in done.out


def test_types_are_named_and_never_guessed(shell, project):
    (project / "optimized.hsaco").write_bytes((project / "capture/kernel.hsaco").read_bytes())
    done = shell("kerncap validate project --tolerance 1e-3 --dtype float8_e9", code=2)
    assert "unknown element type" in done.err
    # bf16 is a type of its own: neither fp16 nor raw integers.
    assert shell("kerncap validate project --tolerance 0 --dtype bf16 -v").out.count("bytes identical") >= 1


def test_defines_and_a_real_build_command_reach_the_compiler_wherever_the_project_is(shell, application):
    tree = shell.folder / "tree $HOME 'x"
    shutil.copytree(application, tree)
    source = tree / "src/matvec.hip"
    source.write_text(
        '#ifndef FROM_COMMAND_LINE\n#error "the define is missing"\n#endif\n'
        f"static_assert(FROM_COMMAND_LINE == 3);\n{source.read_text()}"
    )
    command = [
        "ccache", "hipcc", "-O3", "-Iinclude", "--offload-arch=native", "-fgpu-rdc", "-MD", "-MF", "unit.d",
        '-DNAME="$HOME `id`"', "-c", "src/matvec.hip", "-o", "unit.o",
    ]  # fmt: skip
    entry = {"directory": str(tree), "file": "src/matvec.hip", "arguments": command}
    (tree / "compile_commands.json").write_text(json.dumps([entry]))
    words = ["kerncap", "extract", "demo::add_rows", "--cmd", f"{application}/demo"]
    words += ["-D", "FROM_COMMAND_LINE=3", "--source-dir", str(tree), "--output", "project"]
    done = shell.run(words)
    assert "Result: PASS" in done.err
    shutil.rmtree(tree)
    moved = shell.folder / "moved elsewhere"
    (shell.folder / "project").rename(moved)
    shell("make -s recompile && kerncap validate .", folder=moved)
    assert not list(shell.folder.rglob("unit.d"))


def test_a_kernel_without_source_becomes_a_project_that_says_why(shell, application):
    (shell.folder / "empty").mkdir()
    done = shell(f"kerncap extract demo::add_rows --cmd {application}/demo --source-dir empty --json")
    result = json.loads(done.out)
    assert result["has_source"] is False
    assert any("no definition of" in note for note in result["notes"])
    assert Path(result["output_dir"]) == shell.folder / "isolated/add_rows"
    assert shell(f"kerncap replay {result['output_dir']}").code == 0
    assert "no definition of" in shell(f"make -C {result['output_dir']} recompile", code=2).err


def test_without_a_compile_command_the_documented_line_says_so(shell, application):
    tree = shell.folder / "tree"
    shutil.copytree(application, tree)
    (tree / "compile_commands.json").unlink()
    done = shell(f"kerncap extract demo::fill --cmd {application}/demo --source-dir tree --output project")
    assert (
        "No compile command found (compile_commands.json missing or has no entry for this file)." in done.out
    )


NAMES = {
    "a_first.hip": """#include <hip/hip_runtime.h>
namespace { __global__ void scale(float* x) { x[threadIdx.x] += 1; } }
void run_first(float* x) { scale<<<1, 64>>>(x); }
""",
    "kernels.cuh": """// \xe9crit en Latin-1
namespace {
static __launch_bounds__(64) __global__ void scale(float* x, float by) { x[threadIdx.x] *= by; }
}
""",
    "second.hip": """#include <hip/hip_runtime.h>
#include "kernels.cuh"
void run_first(float* x);
int main() {
  float* x = nullptr;
  if (hipMalloc(&x, 256) != hipSuccess || hipMemset(x, 63, 256) != hipSuccess) return 2;
  run_first(x);
  scale<<<1, 64>>>(x, 2.0f);
  return hipDeviceSynchronize() == hipSuccess ? 0 : 1;
}
""",
    # The name of a helper is part of the kernel's: that makes no Triton kernel of it.
    "tool.py": "import triton as tr\n\n@tr.jit\ndef a(x):\n    pass\n\n@tr.jit\ndef s(x):\n    pass\n",
}


def test_a_kernel_of_an_anonymous_namespace_in_a_header_is_found_among_others(shell):
    tree = shell.folder / "tree"
    tree.mkdir()
    for name, text in NAMES.items():
        (tree / name).write_bytes(text.encode("latin-1"))
    flags = "-O3 --offload-arch=gfx90a"
    units = ("a_first.hip", "second.hip")
    database = [
        {"directory": str(tree), "file": unit, "command": f"hipcc {flags} -c {unit}"} for unit in units
    ]
    (tree / "compile_commands.json").write_text(json.dumps(database))
    shell(f"hipcc {flags} {' '.join(units)} -o app", folder=tree)
    made = json.loads(
        shell("kerncap extract 'scale(float*, float)' --cmd tree/app --source-dir tree --json").out
    )
    assert made["language"] == "hip"
    assert made["has_source"] is True
    assert b"*= by" in (Path(made["output_dir"]) / "kernel_variant.cpp").read_bytes()
    shell("make -s recompile", folder=Path(made["output_dir"]))
    done = shell(f"kerncap validate {made['output_dir']}")
    assert done.out.splitlines()[-1] == "Result: PASS  (byte-exact, 1 of 1 regions identical)"
