"""Processes around the software GPU: forks, idleness, the launcher."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
import softgpu
from programs import Build, in_rocm, programs

from kerncap_stages.machine.instruction_counts import read_counts

PROCESSES = {program.name: program for program in programs("processes")}
HIP = {program.name: program for program in programs("hip")}


@pytest.mark.parametrize("rocm", ["", "7.2"])
@pytest.mark.parametrize("build", [pytest.param(Build(PROCESSES["fork_and_use"]), id="fork_and_use")])
def test_parent_and_child_of_a_fork_both_go_on(build, executable, rocm):
    softgpu.check(softgpu.run([str(executable(build))], "gfx90a", rocm=rocm))


@pytest.mark.parametrize("build", [pytest.param(Build(PROCESSES["idle_queue"]), id="idle_queue")])
def test_idle_queue_costs_nothing(build, executable):
    done = softgpu.run([str(executable(build)), "2"], "gfx90a")
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout.splitlines()[-1])
    # Measured at a load of 8: 0.001 % idle, 2.5 % waiting. Doorbells are watched by userfaultfd;
    # without it an idle queue is polled like one that waits.
    assert figures["idle_percent"] < 5, figures
    assert figures["waiting_percent"] < 10, figures


@pytest.mark.parametrize("build", [pytest.param(Build(PROCESSES["fork_and_use"]), id="fork_and_use")])
def test_counts_name_each_dispatch(build, executable, tmp_path):
    counts = tmp_path / "counts.jsonl"
    command = softgpu.command_for([str(executable(build))], "gfx942")
    command[command.index("--") : command.index("--")] = ["--count-file", str(counts)]
    subprocess.run(command, check=True, capture_output=True, timeout=softgpu.TIME_LIMIT_S)
    records = read_counts(counts)
    assert len({record.pid for record in records}) == 3  # parent and children
    for record in records:
        assert record.target == "gfx942"
        assert record.wave_instructions == sum(record.by_class.values()) > 0
        assert record.by_class["vmem_store"] > 0  # they fill memory
        assert all(size > 0 for size in record.grid_work_items + record.group_work_items)


@pytest.mark.parametrize(
    "build", [pytest.param(Build(HIP["vector_add"], "gfx90a", "O3"), id="vector_add-gfx90a-O3")]
)
def test_counts_name_kernel_and_symbol_and_repeat(build, executable, tmp_path):
    """The same program executes the same instructions again: a ratio of two counts is a fact."""
    runs = []
    for number in range(2):
        counts = tmp_path / f"counts{number}.jsonl"
        softgpu.check(
            softgpu.run([str(executable(build))], "gfx90a", variables={"KERNCAP_SOFTGPU_COUNT": str(counts)})
        )
        runs.append([count for count in read_counts(counts) if count.symbol.startswith("_Z")])
    first, second = runs
    assert first
    assert all("add" in count.kernel and "(" in count.kernel for count in first)
    assert [count.by_class for count in first] == [count.by_class for count in second]


@pytest.mark.parametrize("target", ["gfx90a", "gfx942"])
@pytest.mark.parametrize(
    "build",
    [
        pytest.param(
            Build(PROCESSES["counted_classes"], "gfx90a", "O3", flags=("--offload-arch=gfx942",)), id="both"
        )
    ],
)
def test_counts_are_those_of_the_code(build, target, executable, tmp_path):
    counts = tmp_path / "counts.jsonl"
    done = softgpu.run([str(executable(build))], target, variables={"KERNCAP_SOFTGPU_COUNT": str(counts)})
    assert done.returncode == 0, done.stderr
    without, with_more = [count.by_class for count in read_counts(counts) if "count_me" in count.kernel]
    assert {name: with_more[name] - without[name] for name in with_more} == {
        "salu": 3, "smem": 4, "valu": 5, "matrix": 6, "lds": 7, "vmem_load": 8, "vmem_store": 9,
        "vmem_atomic": 10, "branch": 11, "sync": 12, "other": 0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["--target", "gfx906", "--", "true"], 2, "gfx906: not emulated"),
        (["--gpus", "9", "--", "true"], 2, "from 1 to 8"),
        (["--target", "gfx1100", "--", "true"], 2, "gfx1100: not emulated"),
        (["--workers", "-1", "--", "true"], 2, "--workers -1: out of range\n  next: from 1 to 1024"),
        (["--workers", "0", "--", "true"], 2, "from 1 to 1024"),
        (["--vram", "lots", "--", "true"], 2, "lots: not a size"),
        (["--vram", 5000 * "9", "--", "true"], 2, "not a size"),
        (["--vram", "1KiB", "--", "true"], 2, "1024 bytes is out of range"),
        (["--vram", "0", "--", "true"], 2, "from 256MiB to 1TiB"),
        (["--vram", "99TiB", "--", "true"], 2, "from 256MiB to 1TiB"),
        (["--count-file", "/dev/null/x", "--", "true"], 2, "/dev/null/x: Not a directory"),
        (["--count", "--count-file", "x", "--", "true"], 2, "exclude each other"),
        (["--", "./no-such-program"], 5, "no-such-program: there is no such file"),
        (["--", "sh", "-c", "exit 7"], 7, ""),
        (["--", "sh", "-c", "echo $LD_PRELOAD >&2; exit 0"], 0, "libkerncap_softgpu.so"),
    ],
)
def test_launcher_answers(arguments, code, text):
    done = subprocess.run(["kc-softgpu", *arguments], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == code, done.stderr
    assert text in done.stderr


def test_launcher_says_how_to_get_rocm(tmp_path):
    """Without ROCm libraries it names the tool that makes a root."""
    script = (
        "import ctypes.util, sys; ctypes.util.find_library = lambda name: None; "
        "sys.argv = ['kc-softgpu', '--', 'true']; "
        "from kerncap_stages.machine import softgpu; softgpu._ROCR = 'no-such-library.so'; "
        "from kerncap_stages.cli.commands.softgpu import main; main()"
    )
    done = subprocess.run(
        ["python3", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 4, done.stderr
    assert "kc-root run" in done.stderr
    assert "make shell" in done.stderr


@pytest.mark.parametrize(("value", "traces"), [("0", False), ("1", True)])
def test_trace_can_be_switched_off(value, traces):
    done = softgpu.run(["rocminfo"], "gfx90a", variables={"KERNCAP_SOFTGPU_TRACE": value})
    assert done.returncode == 0, done.stderr
    assert bool(done.stderr) == traces, done.stderr


@pytest.mark.parametrize(
    "build", [pytest.param(Build(HIP["vector_add"], "gfx90a", "O3"), id="vector_add-gfx90a-O3")]
)
def test_trace_names_what_it_shows(build, executable):
    """For people: kernels, driver calls and errors by name, sizes with units; a packet is shown once."""
    command = softgpu.command_for([str(executable(build))], "gfx90a")
    command.insert(command.index("--"), "--trace")
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=softgpu.TIME_LIMIT_S)
    lines = done.stderr.splitlines()
    queue, packet = next(
        match.groups()
        for line in lines
        if (match := re.search(r"queue (\d+), packet (\d+): kernel add\(float const\*", line))
    )
    about = [line.partition(f"queue {queue}, packet {packet}: ")[2] for line in lines]
    first, second = filter(None, about)
    assert first.startswith(
        "kernel add(float const*, float const*, float*, int), "
        "grid 10240 x 1 x 1 work-items in groups of 256 x 1 x 1, LDS 0 bytes, scratch 0 bytes each"
    )
    assert second == "the kernel has ended"
    assert any(line.endswith("driver call CREATE_QUEUE: done") for line in lines)
    assert any(re.search(r"memory: \d+ bytes of VRAM at 0x[0-9a-f]+ for GPU 0$", line) for line in lines)
    # 10007 floats, in or out.
    assert any(re.search(r"copy packet at \d+: 40028 bytes from 0x", line) for line in lines)
    calls = [line.partition("driver call ")[2] for line in lines if "driver call " in line]
    assert all(re.fullmatch(r"[A-Z_]+: (done|E[A-Z]+)", call) for call in calls), calls


def test_killed_command_in_a_root_leaves_no_mount():
    if reason := softgpu.refusal("7.2"):
        pytest.skip(reason)
    mounts, own = Path("/proc/self/mountinfo"), Path("/proc/self/ns/mnt").readlink()
    before = mounts.read_text()
    command = [*in_rocm("7.2"), "sh", "-c", "readlink /proc/self/ns/mnt; exec sleep 600"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        its = running.stdout.readline().strip()
        running.kill()
    assert its.startswith("mnt:")
    assert its != str(own)  # what it mounted was never ours
    assert mounts.read_text() == before


LOADS_HIP_ITSELF = """
import ctypes, sys
hip = ctypes.CDLL("libamdhip64.so", mode=ctypes.RTLD_LOCAL)  # as Triton does: out of the global scope
module, kernel, memory = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
def ok(status): assert status == 0, status
ok(hip.hipInit(0))
ok(hip.hipModuleLoad(ctypes.byref(module), sys.argv[1].encode()))
ok(hip.hipModuleGetFunction(ctypes.byref(kernel), module, b"count"))
ok(hip.hipMalloc(ctypes.byref(memory), ctypes.c_size_t(256)))
arguments = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.pointer(memory), ctypes.c_void_p))
ok(hip.hipModuleLaunchKernel(kernel, 1, 1, 1, 64, 1, 1, 0, None, arguments, None))
result = (ctypes.c_int * 64)()
ok(hip.hipMemcpy(result, memory, ctypes.c_size_t(256), 2))
assert list(result) == list(range(64)), list(result)
print("compared 64, wrong 0")
"""


def test_library_that_loads_hip_for_itself_works(tmp_path):
    source = tmp_path / "count.hip"
    source.write_text(
        "#include <hip/hip_runtime.h>\n"
        'extern "C" __global__ void count(int* out) { out[threadIdx.x] = threadIdx.x; }\n'
    )
    script = tmp_path / "loads.py"
    script.write_text(LOADS_HIP_ITSELF)
    code = tmp_path / "count.hsaco"
    subprocess.run(["hipcc", "--genco", "--offload-arch=gfx90a", source, "-o", code], check=True, timeout=300)
    softgpu.check(softgpu.run(["python3", str(script), str(code)], "gfx90a"))


@pytest.mark.parametrize(("name", "value"), [("VRAM_BYTES", "12"), ("WORKERS", "0")])
def test_bad_settings_are_named_and_show_no_gpu(name, value):
    done = softgpu.run(["rocminfo"], "gfx90a", variables={f"KERNCAP_SOFTGPU_{name}": value})
    assert f"KERNCAP_SOFTGPU_{name}={value}" in done.stderr
    assert "gfx90a" not in done.stdout


def test_limit_of_address_space_is_named():
    done = softgpu.run(["sh", "-c", "ulimit -v 4000000; exec rocminfo"], "gfx90a")
    assert "GiB of address space (ulimit -v): Cannot allocate memory" in done.stderr
    assert "gfx90a" not in done.stdout
