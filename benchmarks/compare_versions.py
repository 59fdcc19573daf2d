"""Compares what verdicts take in two versions of the package, in turn on one machine.

usage: python benchmarks/compare_versions.py BEFORE NOW [ROUNDS]

BEFORE and NOW are folders with the executables of two versions: `make shell ARGS='which kc-validate'` in a
checkout of each builds and names them. Run this in `make shell`, too: it builds the demo program.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path

from edit_loop import Demo, build

# A first verdict, as if the capture had none yet; one on a further edit; one of the captured state alone.
VERDICTS = {"first": ("--fresh",), "further": (), "quick": ("--quick",)}


def main(before: str, now: str, rounds: str = "6") -> None:
    """Print a table: processor time of each version, the ratio of it, and the ratio of wall time."""
    with tempfile.TemporaryDirectory() as name:
        demos = []
        for executables in (before, now):
            folder = Path(name) / str(len(demos))
            folder.mkdir()
            demos.append(build(Demo(folder, Path(executables))))
        print("| verdict | before | now | ratio | ratio of wall time |\n|---|---:|---:|---:|---:|")
        for label, words in VERDICTS.items():
            taken = []
            for number in range(int(rounds)):
                order = demos if number % 2 else demos[::-1]
                by_version = {made: made.verdict(*words) for made in order}
                taken.append([by_version[made] for made in demos])
            then_s, now_s = (statistics.median(pair[i].cpu_s for pair in taken) for i in (0, 1))
            ratio = statistics.median(new.cpu_s / old.cpu_s for old, new in taken)
            wall_ratio = statistics.median(new / old for old, new in taken)
            print(
                f"| {label} | {then_s:.2f} s | {now_s:.2f} s | {ratio:.2f} | {wall_ratio:.2f} |", flush=True
            )


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    main(*sys.argv[1:])
