"""The CUDA back end's speed on this machine, each figure beside what the machine itself can do.

    python3 tests/device/benchmark.py [--gib 30] [--json FILE] [--only WORD ...]

Stores lie in /dev/shm (memory) and in a temporary folder (disk). Prints one row a measurement.
"""

# ruff: noqa: E501 - the rows of a table read better whole
from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
GIB = 1 << 30
CHUNK = 1 << 20
ROWS: list[dict] = []


def row(what: str, figure: str, bar: str, holds: bool | None, **numbers: float) -> None:
    mark = {True: "yes", False: "NO", None: "-"}[holds]
    ROWS.append({"what": what, "figure": figure, "bar": bar, "holds": holds, **numbers})
    print(f"{what:<58} {figure:<48} {bar:<30} {mark}", flush=True)


def run(*words: object, store: Path | None = None, check: bool = True, **variables: str):
    environment = {**os.environ, **variables}
    if store is not None:
        environment["KERNCAP_STORE"] = str(store)
    done = subprocess.run(
        [str(word) for word in words], env=environment, capture_output=True, text=True, check=False
    )
    if check and done.returncode != 0:
        raise RuntimeError(f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done


def build(folder: Path, arch: str) -> None:
    def one(job):
        source, target, flags = job
        run("nvcc", f"-arch={arch}", "-O2", *flags, source, "-o", target)

    programs = [
        (HERE / f"programs/{name}.cu", folder / name, []) for name in ("big_state", "launch_loop", "start_up")
    ]
    with ThreadPoolExecutor() as pool:
        list(pool.map(one, programs))


def device_to_host() -> float:
    """GB/s into pinned memory, two buffers of 64 MiB."""
    import torch

    source = torch.empty(4 * GIB, dtype=torch.uint8, device="cuda")
    buffers = [torch.empty(64 << 20, dtype=torch.uint8, pin_memory=True) for _ in range(2)]
    best = 0.0
    for _ in range(3):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for i, piece in enumerate(source.split(64 << 20)):
            buffers[i % 2].copy_(piece, non_blocking=True)
        torch.cuda.synchronize()
        best = max(best, source.numel() / (time.perf_counter() - begin) / 1e9)
    return best


def incompressible(size_bytes: int) -> np.ndarray:
    return np.random.default_rng(1).integers(0, 256, size_bytes, dtype=np.uint8)


def each_chunk(data: np.ndarray, work) -> float:
    """GB/s of a function over all chunks, on all cores."""
    views = [memoryview(data)[at : at + CHUNK] for at in range(0, len(data), CHUNK)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        begin = time.perf_counter()
        list(pool.map(work, enumerate(views), chunksize=16))
        return len(data) / (time.perf_counter() - begin) / 1e9


def hash_rate(data: np.ndarray) -> float:
    return max(each_chunk(data, lambda item: hashlib.sha256(item[1]).digest()) for _ in range(2))


def hash_and_write_rate(data: np.ndarray, folder: Path) -> float:
    def work(item):
        index, view = item
        hashlib.sha256(view).digest()
        fd = os.open(folder / f"{index}", os.O_WRONLY | os.O_CREAT, 0o600)
        os.write(fd, view)
        os.close(fd)

    folder.mkdir(parents=True)
    rate = each_chunk(data, work)
    shutil.rmtree(folder)
    return rate


def disk_rate(data: np.ndarray, folder: Path) -> float:
    def work(item):
        index, view = item
        (folder / f"{index}").write_bytes(view)

    folder.mkdir(parents=True)
    begin = time.perf_counter()
    each_chunk(data, work)
    os.sync()
    rate = len(data) / (time.perf_counter() - begin) / 1e9
    shutil.rmtree(folder)
    return rate


def capture(program: list, store: Path, dispatch: int = 10, memory_mib: int = 512) -> dict:
    """Run kc-capture's own function; returns the manifest, and how long it took from first byte to published."""
    from kerncap_stages.collector.program import ProgramSpec
    from kerncap_stages.manifests.capture import NameMatch, Selection
    from kerncap_stages.stages.capture import CaptureOptions, run_capture
    from kerncap_stages.store import Store

    first: list[float] = []
    out = Path(tempfile.mkstemp()[1])
    options = CaptureOptions(
        selections=(Selection(match=NameMatch.SUBSTRING, pattern="touch", dispatch=dispatch),),
        memory_bytes=memory_mib << 20,
        progress=lambda *_: first.append(time.perf_counter()) if not first else None,
        warn=lambda text: print(f"  warning: {text}", file=sys.stderr),
    )
    spec = ProgramSpec(tuple(str(word) for word in program), stdout=out)
    found: dict = {}
    for digest, manifest in run_capture(Store.open(store), spec, options):
        seconds = time.perf_counter() - first[0]
        found = {"digest": str(digest), "manifest": manifest, "seconds": seconds}
    text = out.read_text()
    found["longest_s"] = float(re.search(r"longest_s ([\d.]+)", text)[1])
    found["bytes"] = sum(region.size_bytes for region in found["manifest"].regions)
    return found


def captures(folder: Path, gib: int, ceilings: dict) -> None:
    memory = Path(tempfile.mkdtemp(dir="/dev/shm"))
    big = folder / "big_state"
    plain = run(big, gib, 40)
    longest = float(re.search(r"longest_s ([\d.]+)", plain.stdout)[1])
    taken = capture([big, gib, 900000], memory)
    cost = taken["manifest"].cost
    held = cost.held_ns / 1e9
    row(f"program's pause, {gib} GiB, room on the device",
        f"{held:.3f} s held, longest step {taken['longest_s']:.3f} s ({longest:.4f} without)", "at most 0.3 s",
        max(held, taken["longest_s"]) <= 0.3, held_s=held, drain_s=cost.drain_ns / 1e9,
        pre_s=cost.pre_copy_ns / 1e9, post_s=cost.post_copy_ns / 1e9)  # fmt: skip
    rate = taken["bytes"] / taken["seconds"] / 1e9
    bar = min(ceilings["d2h"], ceilings["hash_write"])
    row("capture to a store in memory, incompressible",
        f"{rate:.2f} GB/s of state in {taken['seconds']:.1f} s", f"at least 0.75 of {bar:.2f} GB/s",
        rate >= 0.75 * bar, gb_s=rate, ratio=rate / bar)  # fmt: skip
    again = capture([big, gib, 900000], memory, dispatch=10)
    rate = again["bytes"] / again["seconds"] / 1e9
    row("second capture of it, nothing new",
        f"{rate:.2f} GB/s in {again['seconds']:.1f} s", f"at least 0.85 of {ceilings['hash']:.2f} GB/s",
        rate >= 0.85 * ceilings["hash"], gb_s=rate, ratio=rate / ceilings["hash"])  # fmt: skip
    replays(memory, taken, ceilings)
    shutil.rmtree(memory)


def without_room(folder: Path, gib: int, ceilings: dict) -> None:
    import torch

    memory = Path(tempfile.mkdtemp(dir="/dev/shm"))
    free, _ = torch.cuda.mem_get_info()
    spare = int(free / GIB) - gib - 4
    taken = capture([folder / "big_state", gib, 40, spare], memory)
    held = taken["manifest"].cost.held_ns / 1e9
    both = 2 * taken["bytes"]
    collector = min(ceilings["d2h"], ceilings["hash_write"])
    limit = 1.3 * both / (collector * 1e9)
    row(f"the same with no room there ({spare} GiB taken)",
        f"{held:.2f} s held for {both / 1e9:.0f} GB of two states", f"at most {limit:.2f} s", held <= limit,
        held_s=held)  # fmt: skip
    shutil.rmtree(memory)


def to_disk(folder: Path, disk: Path, data: np.ndarray) -> None:
    """By turns, and as many bytes: what was written a moment ago slows down who comes next."""
    rates, ceilings = [], []
    for number in range(3):
        ceilings.append(disk_rate(data, disk / "plain"))
        taken = capture([folder / "big_state", len(data) // GIB, 600000], disk / f"store-{number}")
        rates.append(taken["bytes"] / taken["seconds"] / 1e9)
        shutil.rmtree(disk / f"store-{number}")
    ratio = statistics.median(rate / ceiling for rate, ceiling in zip(rates, ceilings, strict=True))
    figure = ", ".join(f"{rate:.2f}" for rate in rates) + " GB/s"
    bar = "at least 0.85 of " + ", ".join(f"{ceiling:.2f}" for ceiling in ceilings)
    row(
        f"capture to disk, {len(data) / GIB:.0f} GiB, by turns",
        f"{figure}: {ratio:.2f}",
        bar,
        ratio >= 0.85,
        ratio=ratio,
    )


def replays(store: Path, taken: dict, ceilings: dict) -> None:
    def restore(*options: str) -> tuple[float, float]:
        begin = time.perf_counter()
        done = run("kc-replay", taken["digest"], "--json", *options, store=store)
        made = json.loads(done.stdout)
        return made["restored_size_bytes"] / made["restore_ns"], time.perf_counter() - begin

    restore()  # brings the store into the page cache
    rate, whole = restore()
    row("restore of a replay, verified, from page cache",
        f"{rate:.2f} GB/s; the whole command {whole:.1f} s", f"at least 0.75 of {ceilings['hash']:.2f} GB/s",
        rate >= 0.75 * ceilings["hash"], gb_s=rate, ratio=rate / ceilings["hash"])  # fmt: skip
    rate, whole = restore("--no-verify")
    row("the same with --no-verify", f"{rate:.2f} GB/s; the whole command {whole:.1f} s", "at least 20 GB/s",
        rate >= 20, gb_s=rate)  # fmt: skip


def loop_overhead(folder: Path) -> None:
    program = folder / "launch_loop"

    def parts(*lead: object) -> list[float]:
        done = run(*lead, program, store=folder / "store")
        return [float(value) for value in re.findall(r"launch_us ([\d.]+)", done.stdout + done.stderr)]

    plain, under = [], []
    for _ in range(7):
        plain.append(parts())
        under.append(parts("kc-capture", "--kernel", "target", "--"))
    before = [value for values in under for value in values[:5]]
    after = [value for values in under for value in values[6:]]
    alone = [value for values in plain for value in values]
    base, spread = statistics.median(alone), (min(alone), max(alone))
    for name, values, limit in (("before the target", before, 6.0), ("after it", after, None)):
        ratio = (statistics.median(values) / base - 1) * 100
        figure = f"{statistics.median(values):.3f} us, alone {base:.3f} ({spread[0]:.3f} to {spread[1]:.3f}): {ratio:+.1f} %"
        holds = ratio <= limit if limit is not None else statistics.median(values) <= spread[1]
        row(
            f"loop of launches, {name}",
            figure,
            "at most +6 %" if limit else "within the spread",
            holds,
            percent=ratio,
        )


LAUNCHES = """
import sys, time, torch
data = torch.zeros(1, device="cuda")
times = []
for part in range(30):
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(5000): data.add_(1)
    torch.cuda.synchronize()
    times.append((time.perf_counter() - begin) / 5000)
times.sort()
print("launch_us %.4f" % (times[15] * 1e6), file=sys.stderr)
"""


def torch_loop(folder: Path) -> None:
    """Launches as PyTorch makes them, each a few microseconds of the processor's time."""
    script = folder / "launches.py"
    script.write_text(LAUNCHES)

    def launch_us(*lead: object) -> float:
        done = run(*lead, sys.executable, script, store=folder / "store", check=False)
        return float(re.search(r"launch_us ([\d.]+)", done.stdout + done.stderr)[1])

    plain, under = [], []
    for _ in range(7):
        plain.append(launch_us())
        under.append(launch_us("kc-capture", "--kernel", "softmax_warp", "--dispatch", "99999999", "--"))
    ratio = (statistics.median(under) / statistics.median(plain) - 1) * 100
    row("loop of PyTorch launches, before the target, 7 runs",
        f"{statistics.median(under):.3f} us, alone {statistics.median(plain):.3f} ({min(plain):.3f} to {max(plain):.3f}):"
        f" {ratio:+.1f} %", "at most +6 %", ratio <= 6, percent=ratio)  # fmt: skip


STEP = """
import sys, time, torch
model = torch.nn.Sequential(*[torch.nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True) for _ in range(4)]).cuda()
optimiser = torch.optim.AdamW(model.parameters())
data = torch.randn(32, 128, 512, device="cuda")
def step():
    optimiser.zero_grad(set_to_none=True)
    model(data).square().mean().backward()
    optimiser.step()
for _ in range(20): step()
torch.cuda.synchronize()
times = []
for _ in range(60):
    begin = time.perf_counter(); step(); torch.cuda.synchronize(); times.append(time.perf_counter() - begin)
times.sort()
print("step_ms %.4f %.4f" % (times[30] * 1e3, times[6] * 1e3), file=sys.stderr)
"""


def training_overhead(folder: Path) -> None:
    script = folder / "step.py"
    script.write_text(STEP)

    def steps(*lead: object) -> tuple[float, float]:
        """Median and tenth percentile of a process's steps: Python's threads make the median of each a different one."""
        done = run(*lead, sys.executable, script, store=folder / "store", check=False)
        found = re.search(r"step_ms ([\d.]+) ([\d.]+)", done.stdout + done.stderr)
        return float(found[1]), float(found[2])

    plain, under = [], []
    for _ in range(7):
        plain.append(steps())
        under.append(steps("kc-capture", "--kernel", "softmax_warp", "--dispatch", "99999999", "--"))
    ratios = []
    for which in (0, 1):
        alone = [each[which] for each in plain]
        with_us = statistics.median(each[which] for each in under)
        ratios.append((with_us / statistics.median(alone) - 1) * 100)
        row(f"PyTorch training step, {('median', 'tenth percentile')[which]}, 7 runs",
            f"{with_us:.3f} ms, alone {statistics.median(alone):.3f} ({min(alone):.3f} to {max(alone):.3f}):"
            f" {ratios[-1]:+.1f} %", "at most +2 %", ratios[-1] <= 2, percent=ratios[-1])  # fmt: skip


def start_up(folder: Path) -> None:
    def seconds(*lead: object) -> float:
        done = run(*lead, folder / "start_up", store=folder / "store", check=False)
        return float(re.search(r"started_s ([\d.]+)", done.stdout + done.stderr)[1])

    plain, under = [], []
    for _ in range(5):
        plain.append(seconds())
        under.append(seconds("kc-capture", "--kernel", "no_such_kernel", "--"))
    more = statistics.median(under) - statistics.median(plain)
    row("a program's start to the end of its first kernel",
        f"{statistics.median(under):.3f} s, alone {statistics.median(plain):.3f} ({min(plain):.3f} to {max(plain):.3f})",
        "at most 0.3 s more", more <= 0.3, more_s=more)  # fmt: skip


MATMUL = """
import torch
a = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
b = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
x = torch.randn(64 << 20, device="cuda")
for step in range(60):
    c = a @ b
    y = torch.sin(x)
torch.cuda.synchronize()
"""


def fidelity(folder: Path) -> None:
    script, store = folder / "matmul.py", folder / "fidelity"
    script.write_text(MATMUL)
    profile = json.loads(run("kc-profile", "--json", "--", sys.executable, script, store=store).stdout)
    for part in ("gemm|nvjet|cutlass", "sin_kernel"):
        kernel = next(
            each for each in profile["kernels"] if re.search(part, each["name"]) and each["calls"] >= 50
        )
        digest = run("kc-capture", "--kernel", kernel["name"], "--exact", "--dispatch", 30, "--stop-after", "--",
                     sys.executable, script, store=store).stdout.strip()  # fmt: skip
        made = json.loads(run("kc-replay", digest, "-n", 50, "--warmup", 10, "--json", store=store).stdout)
        there, here = kernel["mean_ns"] / 1e3, made["timing"]["median_ns"] / 1e3
        ratio = (here / there - 1) * 100
        row(f"timing of {kernel['name'][:36]}", f"{here:.2f} us replayed, {there:.2f} in the program: {ratio:+.1f} %",
            "within 3 %", abs(ratio) <= 3, percent=ratio)  # fmt: skip


def edit_loop(folder: Path, arch: str) -> None:
    store = Path(tempfile.mkdtemp(dir="/dev/shm"))
    taken = capture([folder / "big_state", 1, 40], store)
    source = (HERE / "programs/big_state.cu").read_text()
    shutil.copy(HERE / "programs/check.cuh", folder)

    def edited(number: int) -> tuple[Path, float]:
        """Another variant that does the same, and how long the compiler took for it."""
        path = folder / f"edited-{number}.cu"
        path.write_text(source.replace("data[i] * 1664525u", f"(data[i] + {number}u - {number}u) * 1664525u"))
        made = path.with_suffix(".cubin")
        begin = time.perf_counter()
        run("nvcc", f"-arch={arch}", "-O2", f"-DEDIT={number}", "-lineinfo", "-cubin", path, "-o", made)
        return made, time.perf_counter() - begin

    def validated(variant: Path, *more: str) -> float:
        began = time.perf_counter()
        done = run("kc-validate", taken["digest"], "--variant", variant, *more, store=store, check=False)
        print(f"    {done.stderr.strip()[-300:]}", flush=True)
        return time.perf_counter() - began

    first = validated(edited(0)[0])
    variant, compiler = edited(1)
    quick = validated(variant, "--quick")
    variant, compiler = edited(2)
    whole = validated(variant)
    for name, seconds in (("--quick", quick), ("and from changed pre-states", whole)):
        row(f"edit, recompile, validate 1 GiB, {name}", f"compiler {compiler:.2f} s + validate {seconds:.2f} s (the first edit's {first:.2f} s)",
            "compiler + at most 1.5 s", seconds <= 1.5, validate_s=seconds, first_s=first)  # fmt: skip
    shutil.rmtree(store)


def copying_baseline(gib: int) -> None:
    import torch

    source = torch.empty(gib * GIB, dtype=torch.uint8, device="cuda")
    target = Path(tempfile.mkdtemp(dir="/dev/shm")) / "raw"
    begin = time.perf_counter()
    with target.open("wb") as file:
        for piece in source.split(64 << 20):
            file.write(memoryview(piece.cpu().numpy()))
    rate = source.numel() / (time.perf_counter() - begin) / 1e9
    shutil.rmtree(target.parent)
    held = next((each["held_s"] for each in ROWS if "held_s" in each and "room on" in each["what"]), None)
    pause = gib * GIB / rate / 1e9
    figure = f"{rate:.2f} GB/s: a pause of {pause:.1f} s"
    row("copying baseline: one thread, pageable, raw files", figure + (f", ratio {pause / held:.0f}" if held else ""),
        "ratio at least 8", None if held is None else pause / held >= 8, gb_s=rate)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gib", type=int, default=30)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", nargs="*", default=[])
    options = parser.parse_args()
    gpu = run(
        "nvidia-smi", "--query-gpu=name,driver_version,compute_cap,clocks.max.sm", "--format=csv,noheader"
    )
    print(f"{gpu.stdout.strip()}; {os.cpu_count()} cores; {time.strftime('%Y-%m-%d')}")
    arch = "sm_" + gpu.stdout.split(",")[2].strip().replace(".", "")
    folder = Path(tempfile.mkdtemp())
    build(folder, arch)
    data = incompressible(4 * GIB)
    ceilings = {"d2h": device_to_host(), "hash": hash_rate(data)}
    ceilings["hash_write"] = hash_and_write_rate(data, Path("/dev/shm/kerncap-plain"))
    print(
        "ceilings: " + ", ".join(f"{name} {value:.2f} GB/s" for name, value in ceilings.items()), flush=True
    )
    import torch

    torch.cuda.empty_cache()
    steps = {
        "captures": lambda: captures(folder, options.gib, ceilings),
        "without_room": lambda: without_room(folder, options.gib, ceilings),
        "disk": lambda: to_disk(folder, folder / "disk", data),
        "loop": lambda: loop_overhead(folder),
        "torch_loop": lambda: torch_loop(folder),
        "start": lambda: start_up(folder),
        "training": lambda: training_overhead(folder),
        "fidelity": lambda: fidelity(folder),
        "edit": lambda: edit_loop(folder, arch),
        "baseline": lambda: copying_baseline(options.gib),
    }
    for name, step in steps.items():
        if options.only and name not in options.only:
            continue
        begin = time.perf_counter()
        try:
            step()
        except Exception as error:
            row(name, f"FAILED: {str(error)[-1500:]}", "", False)
        print(f"    ({name}: {time.perf_counter() - begin:.0f} s)", flush=True)
        torch.cuda.empty_cache()
    if options.json:
        options.json.write_text(
            json.dumps({"gpu": gpu.stdout.strip(), "ceilings": ceilings, "rows": ROWS}, indent=1)
        )
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
