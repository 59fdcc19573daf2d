"""The CUDA back end's speed on this machine, each figure beside what the machine itself can do.

    python3 tests/device/benchmark [--gib 30] [--rounds 3] [--markdown] [--json FILE] [--only WORD ...]

Stores lie in /dev/shm (memory) and in /var/tmp (disk). Every row is measured by turns with what it is
compared with; the ratio is the median of the rounds'.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import torch
from captures import copying_baseline, into_memory, to_disk, without_room
from edits import edit_loop
from kernels import fidelity
from machine import GIB, SAMPLE_GIB, Bench, run
from overhead import launches, start_up, torch_program
from table import Table

# What is closest to its bar first: who runs out of time has it.
PARTS = {
    "memory": into_memory,
    "edit": edit_loop,
    "launches": launches,
    "fidelity": fidelity,
    "no-room": without_room,
    "baseline": copying_baseline,
    "torch": torch_program,
    "disk": to_disk,
    "start": start_up,
}


def _machine() -> tuple[str, str]:
    """What it is, and its GPU's architecture."""
    found = run("nvidia-smi", "--query-gpu=name,driver_version,compute_cap", "--format=csv,noheader").stdout
    name, driver, capability = (word.strip() for word in found.splitlines()[0].split(","))
    cores = len(os.sched_getaffinity(0))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIB
    day = time.strftime("%Y-%m-%d")
    text = f"{name}, driver {driver}; {cores} cores, {memory:.0f} GiB; {day}"
    return text, "sm_" + capability.replace(".", "")


def main() -> None:
    """Measure, print, and end with 1 if a row could not be measured or misses its bar."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gib", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", nargs="*", choices=PARTS, default=list(PARTS))
    options = parser.parse_args()
    if options.gib < SAMPLE_GIB:
        parser.error(f"--gib: at least {SAMPLE_GIB}")
    text, arch = _machine()
    print(text + "\n", flush=True)
    table = Table(markdown=options.markdown)
    folder, memory = Path(tempfile.mkdtemp(dir="/var/tmp")), Path(tempfile.mkdtemp(dir="/dev/shm"))
    # An image may forbid bytecode files, and bring packages without: each command would compile numpy anew.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = str(folder / "bytecode")
    bench = Bench(table, folder, memory, arch, options.gib, options.rounds)
    try:
        bench.build()
        table.begin()
        for name in options.only:
            begin = time.perf_counter()
            try:
                PARTS[name](bench)
            except Exception as error:  # the other parts are measured all the same
                table.add(name, f"FAILED: {str(error)[-1500:]}", "", None, holds=False)
            torch.cuda.empty_cache()
            print(f"{name}: {time.perf_counter() - begin:.0f} s", file=sys.stderr, flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(memory, ignore_errors=True)
    if options.json:
        options.json.write_text(json.dumps({"machine": text, "rows": table.as_json()}, indent=1))
    sys.exit(1 if any(row.holds is False for row in table.rows) else 0)


if __name__ == "__main__":
    main()
