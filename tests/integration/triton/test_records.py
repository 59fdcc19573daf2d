"""What is recorded of the kernels that Triton compiles, and what a program notices of it: nothing."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import pytest
from triton_package import PROGRAMS, generate_and_judge, judge

if TYPE_CHECKING:
    from pathlib import Path

KERNELS = PROGRAMS / "kernels.py"
TARGETS = ("gfx90a", pytest.param("gfx942", marks=pytest.mark.slow))


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(textwrap.dedent(text))
    return path


def values(listed) -> dict[str, str]:
    return {value["name"]: value["text"] for value in listed}


def test_a_record_holds_the_call_and_all_that_the_kernel_reaches(with_triton):
    (digest,) = with_triton.capture("add_kernel", sys.executable, KERNELS, "add")
    triton = with_triton.show(digest)["kernel"]["triton"]
    assert triton["parameter_names"] == ["x", "y", "out", "n", "BLOCK", "LOW", "CHANGE"]
    assert dict(triton["signature"])["x"] == "*fp32"
    assert values(triton["constexprs"]) == {
        "BLOCK": "256",
        "LOW": "float('-inf')",
        "CHANGE": "__main__:negate",
    }
    assert values(triton["options"])["num_warps"] == "4"
    assert ["x", "tt.divisibility", "16"] in triton["specialization"]
    functions = {each["qualified_name"]: each for each in triton["functions"]}
    assert functions.keys() == {"add_kernel", "negate", "clamp", "twice"}
    assert functions["twice"]["path"] == str(PROGRAMS / "shapes.py")
    assert values(functions["twice"]["uses"]) == {"SCALE": "2.0"}
    assert values(functions["add_kernel"]["uses"])["limit"] == "shapes:clamp"
    text = with_triton.run("show", digest).must().out
    assert "twice" in text


def test_a_kernel_from_tritons_cache_is_recorded_too(with_triton):
    for _ in range(2):
        (digest,) = with_triton.capture("softmax_kernel", sys.executable, KERNELS, "softmax")
        assert with_triton.show(digest)["kernel"]["triton"]["function_name"] == "softmax_kernel"


@pytest.mark.parametrize("target", TARGETS)
def test_kernels_of_one_name_are_told_apart(with_triton, target):
    with_triton.target = target
    script = PROGRAMS / "one_name.py"
    digests = with_triton.capture("scale", sys.executable, script, options=("--count", 2))
    factors = [
        values(with_triton.show(digest)["kernel"]["triton"]["constexprs"])["FACTOR"] for digest in digests
    ]
    assert factors == ["3.0", "5.0"]
    project = with_triton.folder / "project"
    wrong, right = ("(FACTOR + 0)", "(FACTOR - 2)"), ("* FACTOR", "* (FACTOR + 0)")
    generate_and_judge(with_triton, digests[1], project, wrong, right)


@pytest.mark.parametrize("target", TARGETS)
def test_a_kernel_of_an_executed_string_has_its_source(with_triton, target):
    with_triton.target = target
    script = PROGRAMS / "executed_string.py"
    (digest,) = with_triton.capture("cell", sys.executable, script)
    (function,) = with_triton.show(digest)["kernel"]["triton"]["functions"]
    assert function["path"].endswith("<cell 1>")
    project = with_triton.folder / "project"
    wrong, right = ("1.0 + tl", "2.0 + tl"), ("tl.load(x + at) + 1.0", "1.0 + tl.load(x + at)")
    generate_and_judge(with_triton, digest, project, wrong, right)
    assert "def cell(x):" in (project / "kernel_variant.py").read_text()


def test_what_cannot_stand_alone_becomes_instructions_and_is_named(with_triton):
    script = write(with_triton.folder, "odd.py", """
        import enum
        import numpy as np, triton, triton.language as tl
        from arrays import Array

        class Kind(enum.Enum):
            SUM = 1

        @triton.jit
        def odd(x, KIND: tl.constexpr):
            at = tl.arange(0, 64)
            tl.store(x + at, tl.load(x + at) + 1.0)

        odd[(1,)](Array(np.ones(64, np.float32)), Kind.SUM)
        """)  # fmt: skip
    (digest,) = with_triton.capture("odd", sys.executable, script)
    source = with_triton.run("locate", digest).must().digests[0]
    made = with_triton.run("generate", source, "-o", with_triton.folder / "project").must()
    assert "KIND is a Python object of type __main__.Kind" in made.err
    assert (with_triton.folder / "project/kernel_variant.s").exists()


def test_a_plain_function_whose_file_has_changed_is_not_recorded_as_another(with_triton):
    write(with_triton.folder, "plain.py", "def twice(x):\n    return 2 * x\n")
    script = write(with_triton.folder, "uses.py", """
        import pathlib
        import numpy as np, triton, triton.language as tl
        import plain
        from arrays import Array

        file = pathlib.Path(plain.__file__)
        file.write_text(file.read_text().replace("2 *", "3 *"))

        @triton.jit
        def uses(x, CHANGE: tl.constexpr):
            at = tl.arange(0, 64)
            tl.store(x + at, tl.load(x + at) + CHANGE(21))

        uses[(1,)](Array(np.ones(64, np.float32)), plain.twice)
        """)  # fmt: skip
    (digest,) = with_triton.capture("uses", sys.executable, script)
    source = with_triton.run("locate", digest).must().digests[0]
    made = with_triton.run("generate", source, "-o", with_triton.folder / "project").must()
    assert "the source of CHANGE, a function, cannot be read, or has changed" in made.err
    assert (with_triton.folder / "project/kernel_variant.s").exists()


ODD = """
import enum, os, sys
import numpy as np, triton, triton.language as tl
from arrays import Array
\f
class Mask(enum.Enum):
    LEFT = 1

mask, columns, DEFAULT = Mask.LEFT, Mask.LEFT, tl.constexpr(2.0)

n = tl.constexpr(3)

@triton.jit
def triple(x):
    return x * n

def make(n):
    @triton.jit
    def scale(x):
        return x * n
    return scale

double = make(tl.constexpr(2))

@triton.constexpr_function
def square(n):
    return n * n

@triton.jit
def by(x, factor: tl.constexpr = DEFAULT):
    return x * factor

def hold(bits):
    return bits.value if isinstance(bits, tl.constexpr) else bits

@tl.constexpr
def choose_type(bits: tl.constexpr):
    return tl.float32 if hold(bits) == 32 else tl.float16

def name_it(specialization):
    return f"kernel_of_{specialization.constants['BLOCK']}"

@triton.jit(repr=name_it)
def kernel(pair, COMBINE: tl.constexpr, BLOCK: tl.constexpr):
    mask = tl.arange(0, BLOCK)
    wide: tl.constexpr = choose_type(32)
    x = tl.load(pair[0] + mask).to(choose_type(16)).to(wide)
    columns = COMBINE(x, x)
    tl.store(pair[1] + mask, double(x) + triple(by(x)) + columns + square(BLOCK))

open(__file__, "a").write("# changed while it ran")
with open(__file__) as file:
    lines = file.readlines()
x, y = Array(np.ones(64, np.float32)), Array(np.zeros(64, np.float32))
kernel[(1,)]((x, y), tl.standard._sum_combine, 64)
if not (y.read() == 2 + 6 + 2 + 64 * 64).all():
    sys.exit(str(y.read()))
"""


def test_odd_kernels_are_compiled_again_as_they_were(with_triton):
    script = write(with_triton.folder, "odd.py", ODD)
    with_triton.variables |= {"AMDGCN_USE_BUFFER_OPS": "0"}
    (digest,) = with_triton.capture("kernel_of_64", sys.executable, script)
    del with_triton.variables["AMDGCN_USE_BUFFER_OPS"]
    triton = with_triton.show(digest)["kernel"]["triton"]
    assert ["AMDGCN_USE_BUFFER_OPS", "false"] in triton["environment"]
    project = with_triton.folder / "project"
    with_triton.run("generate", with_triton.run("locate", digest).must().digests[0], "-o", project).must()
    text = (project / "kernel_variant.py").read_text()
    assert "Mask" not in text
    assert "@triton.language.constexpr\ndef choose_type(bits: tl.constexpr):" in text
    assert "Result: PASS  (byte-exact" in judge(project, with_triton)


def test_a_start_of_python_imports_nothing_more(with_triton):
    script = write(with_triton.folder, "look.py", """
        import json, sys
        json.dump(sorted(set(sys.modules)), open("seen", "w"))
        """)  # fmt: skip
    write(with_triton.folder, "random.py", "")
    with_triton.run("capture", "-k", "none", "--", sys.executable, script).must(1)
    seen = json.loads((with_triton.folder / "seen").read_text())
    subprocess.run([sys.executable, script], env=with_triton.environment, cwd=with_triton.folder, check=True)
    assert set(seen) - set(json.loads((with_triton.folder / "seen").read_text())) <= {"sitecustomize"}


def test_the_program_sees_its_own_python(with_triton):
    folder = with_triton.folder / "site"
    folder.mkdir()
    write(folder, "sitecustomize.py", "import os\nos.environ['THEIRS'] = __file__\n")
    script = write(with_triton.folder, "look.py", """
        import json, os, sys
        json.dump([sys.path, os.environ["THEIRS"], sys.modules["sitecustomize"].__file__, len(sys.meta_path)],
                  open("seen", "w"))
        """)  # fmt: skip
    variables = {"PYTHONPATH": f"{folder}:{with_triton.variables['PYTHONPATH']}"}
    with_triton.run("capture", "-k", "none", "--", sys.executable, script, **variables).must(1)
    seen = json.loads((with_triton.folder / "seen").read_text())
    subprocess.run(
        [sys.executable, script],
        env={**with_triton.environment, **variables},
        cwd=with_triton.folder,
        check=True,
    )
    alone = json.loads((with_triton.folder / "seen").read_text())
    assert seen[:3] == alone[:3]
    assert seen[3] == alone[3] + 1  # what waits for Triton


def test_a_failure_of_the_recorder_is_told_and_harms_nothing(with_triton):
    script = write(with_triton.folder, "broken.py", f"""
        import sys
        import triton
        from kerncap_triton import records
        records._describe_function = None
        sys.argv = ["kernels.py", "softmax"]
        exec(compile(open({str(KERNELS)!r}).read(), {str(KERNELS)!r}, "exec"))
        """)  # fmt: skip
    done = with_triton.run("capture", "-k", "softmax_kernel", "--", sys.executable, script).must()
    assert "the kernel softmax_kernel cannot be recorded: TypeError" in done.err
    (digest,) = done.digests
    assert with_triton.show(digest)["kernel"]["triton"] is None
    source = with_triton.run("locate", digest, "--source-dir", PROGRAMS).must()
    assert "is a Triton kernel" in source.err


def test_without_the_recorder_the_line_table_and_the_sources_tell(with_triton):
    script = write(with_triton.folder, "apart.py", f"""
        import subprocess, sys
        path = {with_triton.variables["PYTHONPATH"].split(":")!r}
        start = f"import sys; sys.path[:0] = {{path!r}}; sys.argv = ['kernels.py', 'add']; "
        start += "exec(compile(open({str(KERNELS)!r}).read(), {str(KERNELS)!r}, 'exec'))"
        sys.exit(subprocess.run([sys.executable, "-E", "-c", start]).returncode)
        """)  # fmt: skip
    # A kernel of the same name in C++: the line table says that it is another one.
    write(with_triton.folder, "other.hip", 'extern "C" __global__ void add_kernel(float* x) {}')
    (digest,) = with_triton.capture("add_kernel", sys.executable, script)
    located = with_triton.run("locate", digest, "--source-dir", with_triton.folder).must()
    assert "compiled from" in located.err
    assert "-E" in located.err
    source = with_triton.show(located.digests[0])
    assert (source["language"], source["outcome"]) == ("triton", "found")
    definition = source["definition"]
    assert (definition["path"], definition["qualified_name"]) == (str(KERNELS), "add_kernel")
    assert definition["via_line_table"]
    assert [each["name"] for each in definition["parameters"]][-3:] == ["BLOCK", "LOW", "CHANGE"]
    assert [file["path"] for file in source["files"]] == [str(KERNELS), str(PROGRAMS / "shapes.py")]
    made = with_triton.run("generate", located.digests[0], "-o", with_triton.folder / "project").must()
    assert "how Triton compiled the kernel was not recorded" in made.err
    assert (with_triton.folder / "project/kernel_variant.s").exists()
