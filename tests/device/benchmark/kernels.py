"""How true a replayed kernel's time is: medians of CUPTI's time stamps in the program and in the replay, by turns.

A kernel that memory bounds takes up to 4 % longer where the kernel before it left the cache full of what it had
written. So like is compared with like: a kernel behind itself, and one behind 128 MiB written elsewhere. Clocks are
left alone, and are read all the while.
"""

# ruff: noqa: E501 - the rows of a table read better whole
from __future__ import annotations

import json
import re
import sys

from machine import Bench, SmClock, run
from table import each, median, ratios

LAUNCHES, WARM_UP = 50, 10
PROGRAM = """
import statistics, sys, torch
from torch.profiler import ProfilerActivity, profile
LAUNCHES, WARM_UP = int(sys.argv[1]), int(sys.argv[2])
a = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
b = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
x = torch.randn(40 << 20, device="cuda")
elsewhere = torch.empty(128 << 20, dtype=torch.uint8, device="cuda")
kernels = {"gemm|nvjet|cutlass": lambda: a @ b, "sin_kernel": lambda: torch.sin(x)}
def run(work):
    for _ in range(LAUNCHES + WARM_UP): work()
    torch.cuda.synchronize()
def all_states():
    for kernel in kernels.values():
        run(kernel)
        run(lambda: (elsewhere.zero_(), kernel()))
    run(lambda: [kernel() for kernel in kernels.values()])
if len(sys.argv) == 3:
    all_states()
else:
    import json, re
    with profile(activities=[ProfilerActivity.CUDA]) as found:
        all_states()
    events = sorted((event for event in found.events() if event.device_time_total > 0), key=lambda event: event.time_range.start)
    for part in kernels:
        mine = [event for event in events if re.search(part, event.name)]
        times = [event.device_time_total for event in mine]
        states = [times[i + WARM_UP : i + WARM_UP + LAUNCHES] for i in range(0, len(times), LAUNCHES + WARM_UP)]
        assert len(states) == 3 and all(len(state) == LAUNCHES for state in states), len(times)
        print(json.dumps([mine[0].name, *(statistics.median(state) for state in states)]))
"""
STATES = (  # of the cache before each launch, and how a replay has it so
    ("behind itself", ()),
    ("behind 128 MiB written elsewhere", ("--flush-cache",)),
)


def fidelity(bench: Bench) -> None:
    """A matmul of cuBLAS and an element-wise kernel of PyTorch."""
    script, store = bench.folder / "kernels.py", bench.memory / "fidelity"
    script.write_text(PROGRAM)
    words = (sys.executable, script, LAUNCHES, WARM_UP)
    captures: dict[str, str] = {}
    here: dict[tuple[str, int], list[float]] = {}
    there: dict[tuple[str, int], list[float]] = {}
    clocks = []
    for _ in range(min(bench.rounds, 2)):
        with SmClock() as clock:
            for line in run(*words, "profiled").stdout.splitlines():
                name, *medians_us = json.loads(line)
                for state, value in enumerate(medians_us):
                    there.setdefault((name, state), []).append(value)
            captures = captures or _captures(list(dict.fromkeys(name for name, _ in there)), words, bench)
            for name, digest in captures.items():
                for state, (_, more) in enumerate(STATES):
                    done = run(
                        "kc-replay", digest, "-n", LAUNCHES, "--warmup", WARM_UP, *more, "--json", store=store
                    )
                    here.setdefault((name, state), []).append(
                        json.loads(done.stdout)["timing"]["median_ns"] / 1e3
                    )
        clocks.append(clock.range_mhz)
    low, high = min(low for low, _ in clocks), max(high for _, high in clocks)
    for name in captures:
        short = re.sub("<.*", "", name)[-38:]
        for state, (what, _) in enumerate(STATES):
            ratio = median(ratios(here[name, state], there[name, state]))
            bench.table.add(f"time of {short}, {what}", f"{each(here[name, state], 1)} us replayed",
                            f"in the program {each(there[name, state], 1)} us; {low} to {high} MHz", ratio, "within 3 %",
                            holds=abs(ratio - 1) <= 0.03)  # fmt: skip
        ratio = median(ratios(here[name, 0], there[name, len(STATES)]))
        bench.table.add(f"time of {short}, behind the other of the two", f"{each(here[name, 0], 1)} us replayed, behind itself",
                        f"in the program {each(there[name, len(STATES)], 1)} us", ratio)  # fmt: skip


def _captures(names: list[str], words: tuple[object, ...], bench: Bench) -> dict[str, str]:
    """A capture of each kernel, from one run of the program, in the order of their launches."""
    chosen = [word for name in names for word in ("--kernel", name)]
    done = run("kc-capture", *chosen, "--exact", "--dispatch", 30, "--stop-after", "--", *words,
               store=bench.memory / "fidelity")  # fmt: skip
    return dict(zip(names, done.stdout.split(), strict=True))
