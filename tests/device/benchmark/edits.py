"""From an edit to a verdict, for a capture of 1 GiB."""

# ruff: noqa: E501 - the rows of a table read better whole
from __future__ import annotations

import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from captures import capture
from machine import TESTS, Bench, run
from table import each, median

if TYPE_CHECKING:
    from pathlib import Path

WHOLE, QUICK = 5, 3  # verdicts of each kind, after the first
LIMIT_S = 1.5


def edit_loop(bench: Bench) -> None:
    """Variants that do the same, each with other code; every verdict is of a variant that was never seen."""
    store = bench.memory / "edits"
    taken = capture(bench, store, 1)
    shutil.copy(TESTS / "programs/check.cuh", bench.folder)
    source = (TESTS / "programs/big_state.cu").read_text()

    def edited(number: int) -> tuple[Path, float]:
        path = bench.folder / f"edited-{number}.cu"
        path.write_text(source.replace("data[i] * 1664525u", f"(data[i] + {number}u - {number}u) * 1664525u"))
        made = path.with_suffix(".cubin")
        begin = time.perf_counter()
        flags = (f"-arch={bench.arch}", "-O2", f"-DEDIT={number}", "-lineinfo", "-cubin")
        run("nvcc", *flags, path, "-o", made)
        return made, time.perf_counter() - begin

    compiler = [edited(number)[1] for number in range(2)]
    with ThreadPoolExecutor() as pool:
        variants = [made for made, _ in pool.map(edited, range(WHOLE + QUICK + 1))]

    def validated(variant: Path, *more: str) -> float:
        begin = time.perf_counter()
        run("kc-validate", taken.digest, "--variant", variant, *more, store=store)
        return time.perf_counter() - begin

    first = validated(variants[0])
    whole = [validated(variant) for variant in variants[1 : WHOLE + 1]]
    quick = [validated(variant, "--quick") for variant in variants[WHOLE + 1 :]]
    for what, seconds in (("the first edit", [first]), ("later ones", whole), ("--quick", quick)):
        bench.table.add(f"edit, recompile, validate 1 GiB, {what}", f"compiler + {each(seconds)} s",
                        f"compiler {each(compiler)} s", (median(compiler) + median(seconds)) / median(compiler),
                        f"compiler + at most {LIMIT_S} s", holds=max(seconds) <= LIMIT_S)  # fmt: skip
    shutil.rmtree(store)
