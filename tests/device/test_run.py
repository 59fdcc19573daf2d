"""kc-run on an NVIDIA GPU: the program runs with the variant, and is otherwise what it is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from nvidia_gpu import TRITON_SAXPY, architecture
from programs import Build, Program, compile_once

from kerncap_stages.digest import Digest
from kerncap_stages.manifests import load_as
from kerncap_stages.manifests.capture import Capture
from kerncap_stages.store import Store

PROGRAMS = Path(__file__).parent / "programs"
CAPTURED = {"streams": 15, "graph": 15, "body": 5, "large": 5}  # what run_ways prints with its own kernel
OTHER = {"streams": 18, "graph": 18, "body": 6, "large": 6}  # with one that adds one more
NEEDS = {"functions_linked": ("-rdc=true",)}


def variant(program, *defines):
    """The kernels of a program, compiled with macros."""
    source = Program(PROGRAMS / f"{program}.cu")
    flags = NEEDS.get(program, ())
    return compile_once(Build(source, architecture(), "O2", defines=defines, device_only=True, flags=flags))


@pytest.fixture
def run(kc):
    """Run kc-run; returns what it did, and the first kernel of its JSON."""

    def start(*words, program, stdin=None, code=0):
        page = kc.folder / "run.json"
        done = kc.run("kc-run", "--json", page, *words, "--", *program, stdin=stdin)
        assert done.code == code, done.out + done.err
        return done, json.loads(page.read_text())["kernels"][0] if page.exists() else None

    return start


@pytest.fixture
def ways(kc, built):
    """run_ways, and a capture of its kernel in blocks of 64."""
    done = kc.ok("kc-capture", "--kernel", "add", "--", built["run_ways"])
    return built["run_ways"], done.out.split()[0]


def results(done):
    """The numbers that run_ways prints."""
    return {line.split()[0]: int(line.split()[1]) for line in done.out.splitlines()[:4]}


def of_captured(kc, digest, folder):
    """The captured cubin itself, as a variant."""
    store = Store.open(kc.store)
    path = folder / "same.cubin"
    path.write_bytes(store.get(load_as(store, Digest(digest), Capture).code_digest))
    return path


def test_a_variant_runs_in_all_launches_and_the_program_stays_what_it_is(run, ways):
    program, capture = ways
    words = ("--variant", variant("run_ways", "EXTRA=1"), "--capture", capture)
    done, kernel = run(*words, program=(program, 7), stdin="a line\n", code=7)
    assert results(done) == OTHER
    assert done.out.endswith("read a line\n")
    assert (kernel["dispatches"], kernel["kept_dispatches"], kernel["failures"]) == (16, 0, [])
    assert "the variant ran in 16 dispatches of 2 processes" in done.err
    right, _ = run("--variant", variant("run_ways", "EXTRA=0"), program=(program,))  # the latest capture
    assert results(right) == CAPTURED


def test_launches_that_the_variant_is_not_for_run_the_captured_kernel(run, ways):
    program, capture = ways
    bounded = variant("run_ways", "EXTRA=1", "BOUNDS=__launch_bounds__(64)")
    done, kernel = run("--variant", bounded, "--capture", capture, program=(program,))
    assert results(done) == OTHER | {"large": CAPTURED["large"]}
    assert (kernel["dispatches"], kernel["kept_dispatches"]) == (14, 2)
    assert "the latest had 2 x 1 x 1 blocks of 256" in done.err


def test_a_variant_with_a_launch_of_its_own_runs_in_the_captured_one(run, ways, tmp_path):
    program, capture = ways
    wide = tmp_path / "wide.cubin"
    wide.write_bytes(variant("run_ways", "EXTRA=1").read_bytes())
    shape = {"grid_blocks": [1, 1, 1], "block_work_items": [128, 1, 1], "dynamic_lds_bytes": 64}
    wide.with_suffix(".shape.json").write_text(json.dumps(shape))
    done, kernel = run("--variant", wide, "--capture", capture, program=(program,))
    assert results(done) == OTHER | {"large": CAPTURED["large"]}
    assert (kernel["dispatches"], kernel["kept_dispatches"]) == (14, 2)


def test_a_rebuilt_program_has_other_code(run, ways):
    _, capture = ways
    source = Program(PROGRAMS / "run_ways.cu")
    rebuilt = compile_once(Build(source, architecture(), "O2", defines=("REBUILT",)))
    words = ("--variant", variant("run_ways", "EXTRA=1"), "--capture", capture)
    done, kernel = run(*words, program=(rebuilt,), code=1)
    assert results(done) == CAPTURED
    assert (kernel["dispatches"], kernel["other_code_objects"] > 0) == (0, True)
    assert "nothing was replaced: a kernel of this name is there, in another code object" in done.err
    done, kernel = run("--any-code", *words, program=(rebuilt,))
    assert results(done) == OTHER
    assert kernel["dispatches"] == 16


def test_a_wrong_variant_is_found_before_the_program_runs_with_it(run, ways):
    program, capture = ways
    words = ("--check", 2, "--capture", capture)
    done, kernel = run(*words, "--variant", variant("run_ways", "EXTRA=1"), program=(program,), code=1)
    assert done.out == ""
    assert kernel["dispatches"] == 0
    assert "the program was not run" in done.err
    done, kernel = run(*words, "--variant", variant("run_ways", "EXTRA=0"), program=(program,))
    assert results(done) == CAPTURED
    assert kernel["dispatches"] == 16


def test_both_kernels_are_timed_in_the_program(kc, ways):
    program, capture = ways
    page = kc.folder / "run.json"
    words = ("--variant", variant("run_ways", "EXTRA=0"), "--capture", capture, "--json", page)
    done = kc.ok("kc-run", "--compare", 2, *words, "--", program)
    compared = json.loads(page.read_text())["compare"]
    assert len(compared["captured_wall_ns"]) == len(compared["variant_wall_ns"]) == 2
    assert "wall times, variant / captured kernel: " in done.err


def test_a_variant_uses_the_programs_variables(kc, run, built):
    program = built["run_variables"]
    capture = kc.capture("tally", program)
    for extra, data in ((0, 95), (1, 100)):
        done, kernel = run(
            "--variant", variant("run_variables", f"EXTRA={extra}"), "--capture", capture, program=(program,)
        )
        assert done.out == f"data {data}, 95 expected\n"
        assert (kernel["dispatches"], kernel["failures"]) == (5, [])


def test_variables_of_any_code_are_found_by_name(kc, run, built):
    program = built["run_variables"]
    words = ("--variant", variant("run_variables", "EXTRA=1"), "--capture", kc.capture("tally", program))
    done, _ = run("--any-code", *words, program=(program,))
    assert done.out == "data 100, 95 expected\n"


@pytest.mark.parametrize(
    ("defines", "code", "says"),
    [
        ((), 0, ""),
        (("SET=99.0f",), 0, ""),  # the host sets it
        (("FACTOR=99.0f",), 1, "factors has other contents in the variant"),
    ],
)
def test_a_table_that_was_edited_is_the_variants(kc, run, built, defines, code, says):
    capture = kc.capture("look_up", built["tables"], dispatch=1)
    words = ("--variant", variant("tables", *defines), "--capture", capture)
    done, kernel = run(*words, program=(built["tables"],), code=code)
    assert kernel["dispatches"] == 3
    assert says in done.err


def test_what_cannot_be_connected_is_refused(kc, run, built, tmp_path):
    capture = kc.capture("tally", built["run_variables"])
    ptx = tmp_path / "variant.ptx"
    source = PROGRAMS / "run_variables.cu"
    subprocess.run(["nvcc", "-ptx", f"-arch={architecture()}", "-o", ptx, source], check=True)
    done, _ = run("--variant", ptx, "--capture", capture, program=(built["run_variables"],), code=6)
    assert "PTX is linked by the driver" in done.err
    linked = kc.capture("render", built["functions_linked"])
    same = of_captured(kc, linked, tmp_path)
    done, _ = run("--variant", same, "--capture", linked, program=(built["functions_linked"],), code=6)
    assert "holds addresses of functions" in done.err


# How each kernel of launch_ways comes to the driver is its name.
LAUNCHES = {"on_own_stream": 1, "together": 2, "extended": 3}
LAUNCHES |= dict.fromkeys(("compiled", "linked", "of_library", "in_a_buffer"))


def of_launch_ways(kernel, extra):
    """The source of an edited kernel of launch_ways."""
    if LAUNCHES[kernel] is None:
        parameters, added = "unsigned* data, unsigned what", f"what + {extra}"
        return f'extern "C" __global__ void {kernel}({parameters}) {{ *data += {added}; }}'
    condition = "if (blockIdx.x == 1) " if kernel == "together" else ""
    return f"__global__ void {kernel}(int* data) {{ {condition}*data += {LAUNCHES[kernel] + extra}; }}"


@pytest.mark.parametrize(
    ("kernel", "form"),
    [*((kernel, "cubin") for kernel in LAUNCHES), ("compiled", "ptx"), ("extended", "fatbin")],
)
def test_a_kernel_is_replaced_whichever_way_it_is_launched(kc, run, built, tmp_path, kernel, form):
    capture = kc.capture(kernel, built["launch_ways"])
    for extra in (0, 1):
        source, edited = tmp_path / "edited.cu", tmp_path / f"edited.{form}"
        source.write_text(of_launch_ways(kernel, extra))
        command = ["nvcc", f"-{form}", f"-arch={architecture()}", "-o", edited, source]
        subprocess.run(command, check=True, capture_output=True)
        # The program ends with 1 if the sum is another one.
        words = ("--variant", edited, "--capture", capture)
        _, replaced = run(*words, program=(built["launch_ways"],), code=extra)
        assert (replaced["dispatches"], replaced["failures"]) == (1, [])


# The program, its arguments, a kernel, and in how many dispatches it runs. Wrong results end each with 1.
PLAIN = [
    ("vector_add", (), "vector_add", 10),
    ("updated_graph", (), "accumulate", 6),
    ("updated_graph", (), "prepare", 5),  # one launch of the graph has that node switched off
    ("graph_order", (), "accumulate", 4),
    ("child_update", (), "target", 2),
    ("dependent_graph", (), "second", 3),
    ("library_kernel", (), "target", 6),
    ("library_kernel", ("asked",), "target", 6),
    ("library_kernel", ("streams",), "target", 6),
    ("several_contexts", (), "in_first", 3),
    ("several_contexts", (), "in_second", 3),
    ("green_context", (), "in_part", 3),
    ("cluster", (), "grid_wide", 2),
    ("cluster", (), "neighbours", 2),
    ("launch_attributes", (), "wide", 3),
    ("launch_attributes", (), "in_graph", 2),
    ("large_parameters", (), "look_up_all", 2),
    ("failed_launches", (), "target", None),
    ("recursion", (), "deep", 1),
    ("prints", (), "speak", 1),
    ("huge_grid", (), "count_blocks", None),
    ("functions", (), "render", None),
    ("twins", (), "twin", 1),
]


@pytest.mark.parametrize(
    ("program", "words", "kernel", "dispatches"), PLAIN, ids=["-".join((p, *w, k)) for p, w, k, _ in PLAIN]
)
def test_the_captured_kernel_in_its_own_place_changes_nothing(
    kc, run, built, tmp_path, program, words, kernel, dispatches
):
    capture = kc.capture(kernel, built[program], *words)
    same = of_captured(kc, capture, tmp_path)
    done, replaced = run("--variant", same, "--capture", capture, program=(built[program], *words))
    assert "ok" in done.out.split()
    assert replaced["failures"] == []
    assert replaced["kept_dispatches"] == 0
    assert replaced["dispatches"] == dispatches if dispatches is not None else replaced["dispatches"] > 0


def test_a_program_that_uses_cupti_itself_keeps_its_kernel(run, kc, built, tmp_path):
    capture = kc.capture("target", built["subscriber"], "behind")
    words = ("--variant", of_captured(kc, capture, tmp_path), "--capture", capture)
    done, replaced = run(*words, program=(built["subscriber"], "before"), code=1)
    assert replaced["dispatches"] == 0
    assert "nothing was replaced: CUPTI takes one subscriber" in done.err


@pytest.fixture
def script(tmp_path, monkeypatch):
    """Write a script; its kernels are compiled anew."""
    pytest.importorskip("torch", reason="PyTorch is not installed")
    monkeypatch.setitem(os.environ, "TRITON_CACHE_DIR", str(tmp_path / "triton"))

    def write(text):
        path = tmp_path / "program.py"
        path.write_text(text)
        return sys.executable, path

    return write


GRAPHED = """
import torch, triton
import triton.language as tl

@triton.jit
def scale(x, out, n, SIZE: tl.constexpr):
    at = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    tl.store(out + at, tl.load(x + at, at < n) * 3.0, at < n)

x, out = torch.ones(1000, device="cuda"), torch.zeros(1000, device="cuda")
scale[(8,)](x, out, 1000, SIZE=128)
scale[(4,)](x, out, 1000, SIZE=256)  # other code, of the same name
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    scale[(8,)](x, out, 1000, SIZE=128)
for step in range(3):
    out.zero_()
    graph.replay()
torch.cuda.synchronize()
print("sum", int(out.sum()))
"""


@pytest.mark.parametrize(
    ("text", "kernel", "old", "new", "dispatches", "out"),
    [
        (TRITON_SAXPY, "saxpy", "factor * ", "1.0 * factor * ", 4, "ok\n"),
        (GRAPHED, "scale", "* 3.0", "* 3.0 * 1.0", 4, "sum 3000\n"),
        (GRAPHED, "scale", "* 3.0", "* 4.0", 4, "sum 4000\n"),
    ],
)
def test_a_triton_kernel_is_edited_in_python_and_runs_in_the_program(
    kc, run, script, tmp_path, text, kernel, old, new, dispatches, out
):
    program = script(text)
    capture = kc.capture(kernel, *program)
    kc.ok("kc-generate", kc.ok("kc-locate", capture).digest, "--output", "project")
    project = tmp_path / "project"
    source = project / "kernel_variant.py"
    assert old in source.read_text()
    source.write_text(source.read_text().replace(old, new))
    kc.ok("make", "-C", project, "recompile", f"PYTHON={sys.executable}")
    done, replaced = run("--variant", project, program=program)
    assert done.out == out
    assert (replaced["dispatches"], replaced["failures"]) == (dispatches, [])
    assert replaced["other_code_objects"] == (1 if kernel == "scale" else 0)
