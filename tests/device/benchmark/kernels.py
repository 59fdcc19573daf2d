"""How true a replayed kernel's time is: medians of CUPTI's time stamps in the program and in the replay, by turns.

The program launches the two in turn, so that each finds the other's data in the cache; clocks are left alone, and
are read all the while.
"""

# ruff: noqa: E501 - the rows of a table read better whole
from __future__ import annotations

import json
import re
import sys

from machine import Bench, SmClock, run
from table import each, median, ratios

LAUNCHES = 50
PROGRAM = """
import statistics, sys, torch
from torch.profiler import ProfilerActivity, profile
a = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
b = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
x = torch.randn(40 << 20, device="cuda")
def work():
    for _ in range(60):
        c = a @ b
        y = torch.sin(x)
    torch.cuda.synchronize()
if len(sys.argv) == 1:
    work()
else:
    with profile(activities=[ProfilerActivity.CUDA]) as found:
        work()
    for part in sys.argv[1:]:
        times = [event.device_time_total for event in found.events() if event.name == part]
        print("median_us %.3f of %d" % (statistics.median(times[10:]), len(times[10:])))
"""


def fidelity(bench: Bench) -> None:
    """A matmul of cuBLAS and an element-wise kernel of PyTorch, launched in turn by the program."""
    script, store = bench.folder / "matmul.py", bench.memory / "fidelity"
    script.write_text(PROGRAM)
    words = (sys.executable, script)
    profile = json.loads(run("kc-profile", "--json", "--", *words, store=store).stdout)
    kernels = [
        next(
            each["name"]
            for each in profile["kernels"]
            if re.search(part, each["name"]) and each["calls"] >= LAUNCHES
        )
        for part in ("gemm|nvjet|cutlass", "sin_kernel")
    ]
    chosen = [word for name in kernels for word in ("--kernel", name)]
    done = run("kc-capture", *chosen, "--exact", "--dispatch", 30, "--stop-after", "--", *words, store=store)
    # In the order of their launches, which is that of the names.
    captures = dict(zip(kernels, done.stdout.split(), strict=True))
    here: dict[str, list[float]] = {name: [] for name in kernels}
    there: dict[str, list[float]] = {name: [] for name in kernels}
    clocks = []
    for _ in range(min(bench.rounds, 2)):
        with SmClock() as clock:
            times = re.findall(r"median_us ([\d.]+)", run(*words, *kernels).stdout)
            for name, text in zip(kernels, times, strict=True):
                there[name].append(float(text))
                done = run("kc-replay", captures[name], "-n", LAUNCHES, "--warmup", 10, "--json", store=store)
                here[name].append(json.loads(done.stdout)["timing"]["median_ns"] / 1e3)
        clocks.append(clock.range_mhz)
    low, high = min(low for low, _ in clocks), max(high for _, high in clocks)
    for name in kernels:
        ratio = median(ratios(here[name], there[name]))
        bench.table.add(f"time of {name[:38]}", f"{each(here[name], 1)} us replayed",
                        f"in the program {each(there[name], 1)} us; {low} to {high} MHz", ratio, "within 3 %",
                        holds=abs(ratio - 1) <= 0.03)  # fmt: skip
