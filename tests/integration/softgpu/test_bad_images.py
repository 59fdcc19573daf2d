"""Images that were cut off or damaged, through HIP's ways in: errors of HIP's, not the end of a program."""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
import softgpu
from programs import Build, in_rocm, programs

if TYPE_CHECKING:
    from pathlib import Path

FAULTS = {program.name: program for program in programs("faults")}
HIP = {program.name: program for program in programs("hip")}
MAGIC = b"__CLANG_OFFLOAD_BUNDLE__"
COMPRESSED = ("--offload-compress",)
FEW, MANY = 60, 600


def image_runs() -> list[object]:
    """Each shape of an image through each door, on both versions; many cases of it are in the full sweep."""
    parameters = []
    shapes = [("elf", ()), ("bundle", ()), ("bundle", COMPRESSED)]
    for rocm, (shape, flags), door, count in itertools.product(
        ("", "7.2"), shapes, ("file", "memory", "register"), (FEW, MANY)
    ):
        if (shape, door) == ("elf", "register"):
            continue  # what clang registers is a bundle
        build = Build(FAULTS["bad_images"], "gfx90a", "O1", rocm=rocm, flags=flags)
        name = f"{rocm or '6.4'}-{'compressed-' if flags else ''}{shape}-{door}-{count}"
        marks = [pytest.mark.slow] if count == MANY else []
        parameters.append(pytest.param(build, shape, door, count, marks=marks, id=name))
    return parameters


@pytest.mark.parametrize(("build", "shape", "door", "count"), image_runs())
def test_damaged_image_is_an_error_of_hip(build, shape, door, count, executable):
    command = [str(executable(build)), shape, door, str(count), str(count)]
    softgpu.check(softgpu.run(command, "gfx90a", rocm=build.rocm))


# What is overwritten in the fat binary of an executable, and where. Its code object begins at 4096.
OVERWRITTEN = {
    "magic": (0, b"XX", "neither a code object nor a bundle"),
    "count": (24, b"\xff\xff\xff\xff", "impossible number of entries"),
    "entry": (24 + 8 + 24 + 31 + 8, b"\xff\xff\xff\x7f", "not all there"),
    "header": (4096 + 40, b"\xff\xff\xff\x7f", "tables are not all there"),
    "machine": (4096 + 18, b"\x3e\x00", "no code object for AMD GPUs"),
    "metadata": (4096 + 0x238 + 20 + 1, b"\x00", "metadata"),
}


@pytest.mark.parametrize("case", OVERWRITTEN)
@pytest.mark.parametrize(
    "build",
    [
        pytest.param(Build(HIP["vector_add"], "gfx90a", "O3", rocm=rocm), id=rocm or "6.4")
        for rocm in ("", "7.2")
    ],
)
def test_damaged_executable_sees_errors_of_hip(build, case, executable, tmp_path):
    offset, bytes_, reason = OVERWRITTEN[case]
    program = bytearray(executable(build).read_bytes())
    fat_binary = next(at for at in range(0, len(program), 4096) if program[at:].startswith(MAGIC))
    program[fat_binary + offset : fat_binary + offset + len(bytes_)] = bytes_
    damaged = tmp_path / "damaged"
    damaged.write_bytes(program)
    damaged.chmod(0o755)
    done = softgpu.run([str(damaged)], "gfx90a", rocm=build.rocm)
    report = f"{done.args}\n{done.returncode}\n{done.stdout}\n{done.stderr}"
    assert done.returncode == 1, report  # the program's own way to end when HIP reports an error
    assert "hipGetLastError()" in done.stderr, report
    lines = done.stderr.splitlines()
    (refused,) = [line for line in lines if f"__hipRegisterFatBinary refused code of {damaged}: " in line]
    assert reason in refused, report
    (launched,) = [line for line in lines if f" did not run; its code in {damaged} was refused: " in line]
    assert reason in launched, report


ASKS_HIP_ITSELF = """
import ctypes, sys
hip = ctypes.CDLL("libamdhip64.so", mode=ctypes.RTLD_LOCAL)
module = ctypes.c_void_p()
image = open(sys.argv[1], "rb").read()
assert hip.hipModuleLoadData(ctypes.byref(module), image) == 0
assert hip.hipModuleLoad(ctypes.byref(module), sys.argv[1].encode()) == 0
for size in range(0, len(image), len(image) // 50):
    # A copy that ends where it was cut off is as good as one in a smaller file: zeros follow it.
    assert hip.hipModuleLoadData(ctypes.byref(module), image[:size] + bytes(len(image) - size)) == 200, size
    with open(sys.argv[1] + ".cut", "wb") as cut:
        cut.write(image[:size])
    status = hip.hipModuleLoad(ctypes.byref(module), cut.name.encode())
    assert status == (200 if size else 1), (size, status)  # an empty file is HIP's own to refuse
print("compared 50, wrong 0")
"""


def test_library_that_loads_hip_for_itself_is_guarded_too(tmp_path):
    source = tmp_path / "one.hip"
    source.write_text(
        '#include <hip/hip_runtime.h>\nextern "C" __global__ void one(int* out) { *out = 1; }\n'
    )
    script = tmp_path / "asks.py"
    script.write_text(ASKS_HIP_ITSELF)
    code = tmp_path / "one.hsaco"
    subprocess.run(["hipcc", "--genco", "--offload-arch=gfx90a", source, "-o", code], check=True, timeout=300)
    softgpu.check(softgpu.run(["python3", str(script), str(code)], "gfx90a"))


LOADS_WHAT_CANNOT_RUN = """
import ctypes, sys
hip = ctypes.CDLL("libamdhip64.so")
module = ctypes.c_void_p()
assert hip.hipModuleLoad(ctypes.byref(module), sys.argv[1].encode()) != 0
assert hip.hipModuleLoadData(ctypes.byref(module), open(sys.argv[1], "rb").read()) != 0
"""


def test_module_for_another_target_is_told_apart(tmp_path):
    source, script, code = tmp_path / "one.hip", tmp_path / "loads.py", tmp_path / "one.co"
    source.write_text("#include <hip/hip_runtime.h>\n__global__ void one(int* out) { *out = 1; }\n")
    script.write_text(LOADS_WHAT_CANNOT_RUN)
    subprocess.run(["hipcc", "--genco", "--offload-arch=gfx942", source, "-o", code], check=True, timeout=300)
    done = softgpu.run(["python3", str(script), str(code)], "gfx90a")
    assert done.returncode == 0, done.stderr
    file = re.escape(str(code))
    for what in (f"hipModuleLoad: {file}", "hipModuleLoadData: an image in memory of .*libffi.*"):
        assert re.search(rf"{what} is not for gfx90a; there is code for: hipv4-.*--gfx942", done.stderr)


def with_a_refused_kernel(tmp_path: Path, rocm: str = "") -> Path:
    """One translation unit for another GPU: its kernel, then one of ours, through every way in."""
    source, program = FAULTS["refused_kernels"].source, tmp_path / "program"
    hipcc = [*in_rocm(rocm), "hipcc", "-O1"]
    refused, good = tmp_path / "refused.o", tmp_path / "good.o"
    for words in (
        ["--offload-arch=gfx942", "-DREFUSED", "-c", source, "-o", refused],
        ["--offload-arch=gfx90a", "-c", source, "-o", good],
        [refused, good, "-o", program],
    ):
        subprocess.run([*hipcc, *words], check=True, timeout=300)
    return program


@pytest.mark.parametrize("rocm", ["", "7.2"])
def test_kernel_that_was_refused_is_an_error_wherever_it_is_named(tmp_path, rocm):
    if reason := softgpu.refusal(rocm):
        pytest.skip(reason)
    program = with_a_refused_kernel(tmp_path, rocm)
    done = softgpu.run([str(program)], "gfx90a", rocm=rocm)
    report = f"{done.args}\n{done.returncode}\n{done.stdout}\n{done.stderr}"
    assert done.returncode == 0, report
    assert (
        "there is code for: hipv4-amdgcn-amd-amdhsa--gfx942 (build it with --offload-arch=gfx90a; "
        "KERNCAP_SOFTGPU_TARGET poses as another GPU)" in done.stderr
    )
    doors = [line.split() for line in done.stdout.splitlines()]
    assert len(doors) == 16, report
    for door, refusal, success in doors:
        assert refusal.startswith("hipErrorInvalid"), (door, report)
        assert success == "hipSuccess", (door, report)


@pytest.mark.parametrize("words", [("profile",), ("capture", "--kernel", "good(")])
def test_stages_say_at_the_end_which_kernels_did_not_run(tmp_path, stages, words):
    """The program ends with 0: nothing else tells that what a kernel should have written is not there."""
    program = with_a_refused_kernel(tmp_path)
    done = stages.run(*words, "--", program).must()
    lines = done.err.splitlines()
    text = f"refused(int*) did not run; its code in {program} is not for gfx90a (sramecc+, xnack-); there is "
    (at_once,) = [line for line in lines if line.startswith(f"kerncap software GPU: {text}")]
    stage = f"kc-{words[0]}: warning: the software GPU did not run all of the program: {text}"
    (at_the_end,) = [line for line in lines if line.startswith(stage)]
    assert lines.index(at_the_end) > lines.index(at_once)
    of_the_program = [i for i, line in enumerate(lines) if line.startswith("hip")]
    assert lines.index(at_the_end) > of_the_program[-1]


NEXT_GETPPID = """
#include <dlfcn.h>
#include <unistd.h>
pid_t getppid(void) {
  pid_t (*next)(void) = (pid_t (*)(void))dlsym(RTLD_NEXT, "getppid");
  return next == getppid ? -1 : next();
}
"""


def build_library(folder: Path, name: str, text: str) -> Path:
    compiler = shutil.which("gcc")
    assert compiler
    source, library = folder / f"{name}.c", folder / f"{name}.so"
    source.write_text(f"#define _GNU_SOURCE\n{text}")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", source, "-o", library], check=True, timeout=60)
    return library


def test_next_symbol_of_another_preload_is_the_one_after_it(tmp_path):
    """Ours stands in front of dlsym, and "next" goes by who asks."""
    library = build_library(tmp_path, "next_getppid", NEXT_GETPPID)
    done = softgpu.run(
        ["python3", "-c", "import os; print('parent', os.getppid())"],
        "gfx90a",
        variables={"LD_PRELOAD": str(library)},
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[-1]) > 0, done.stdout
