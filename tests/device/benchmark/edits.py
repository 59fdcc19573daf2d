"""From an edit to a verdict, for a capture of 1 GiB: a generated project, rebuilt and validated."""

# ruff: noqa: E501 - the rows of a table read better whole
from __future__ import annotations

import json
import shutil
import time
from itertools import count
from typing import TYPE_CHECKING

import numpy as np
import torch
from captures import FOREVER
from machine import GIB, TESTS, Bench, run
from table import each, median

if TYPE_CHECKING:
    from pathlib import Path

# Edits: as if each were the first, further ones, and quick looks.
FIRST, WHOLE, QUICK = 4, 4, 2
LIMIT_S = 1.5
PLACE = "data[i] * 1664525u"


def _project(bench: Bench) -> Path:
    """The project of big_state's kernel, made as a user makes it."""
    app, store = bench.folder / "app", bench.memory / "edits"
    app.mkdir()
    for name in ("big_state.cu", "check.cuh"):
        shutil.copy(TESTS / "programs" / name, app)
    words = ["nvcc", f"-arch={bench.arch}", "-O2", "-lineinfo"]
    run(*words, app / "big_state.cu", "-o", app / "big_state")
    entry = {"directory": str(app), "file": "big_state.cu", "arguments": [*words, "-c", "big_state.cu"]}
    (app / "compile_commands.json").write_text(json.dumps([entry]))
    run("kc-capture", "--kernel", "touch", "--dispatch", 10, "--stop-after", "--", app / "big_state", 1, FOREVER,
        store=store)  # fmt: skip
    run("kc-locate", "@capture", "--source-dir", app, store=store)
    run("kc-generate", "@source", "--output", bench.memory / "project", store=store)
    return bench.memory / "project"


def _seconds(*words: object) -> float:
    begin = time.perf_counter()
    run(*words)
    return time.perf_counter() - begin


def edit_loop(bench: Bench) -> None:
    """Each edit gives other code that does the same; beside it the compiler alone, on the same command."""
    project = _project(bench)
    variant = project / "kernel_variant.cu"
    source = variant.read_text()
    if PLACE not in source:
        raise RuntimeError(f"{variant} does not hold the kernel")
    compiler: list[float] = []

    def turn(number: int, *more: str) -> float:
        variant.write_text(
            source.replace(PLACE, f"(i == (1ull << 40) + {number}u ? 0u : data[i]) * 1664525u")
        )
        compiler.append(_seconds("sh", "-c", f"cd {project} && {compile_alone}"))
        return _seconds("make", "-C", project, "recompile") + _seconds("kc-validate", project, *more)

    recipe = run("make", "-n", "-C", project, "recompile").stdout
    run("make", "-C", project, "recompile")  # also makes the link that the compiler is given
    line = next(line for line in recipe.splitlines() if "-cubin" in line)
    compile_alone = line.replace("optimized.cubin", "alone.cubin")

    numbers = count()
    turn(next(numbers))  # Python keeps bytecode of what it has read once
    first = [turn(next(numbers), "--fresh") for _ in range(FIRST)]
    whole = [turn(next(numbers)) for _ in range(WHOLE)]
    quick = [turn(next(numbers), "--quick") for _ in range(QUICK)]
    alone = median(compiler)
    for what, seconds in (("a first edit", first), ("later ones", whole), ("--quick", quick)):
        beyond = [value - alone for value in seconds]
        bench.table.add(f"edit, recompile, validate 1 GiB, {what}", f"compiler + {each(beyond)} s",
                        f"compiler {alone:.2f} ({min(compiler):.2f} to {max(compiler):.2f}) s",
                        median(seconds) / alone, f"compiler + at most {LIMIT_S} s", holds=max(beyond) <= LIMIT_S)  # fmt: skip
    _by_copying(bench, median(whole) - alone)
    shutil.rmtree(project)


def _by_copying(bench: Bench, ours_s: float) -> None:
    """The memory part of a validation by hand: a raw file in, by pageable copies of one thread, out and compared."""
    data = bench.sample[:GIB]
    path = bench.memory / "raw"
    data.tofile(path)
    begin = time.perf_counter()
    on_device = torch.from_numpy(np.fromfile(path, np.uint8)).to("cuda")
    torch.cuda.synchronize()
    same = np.array_equal(on_device.cpu().numpy(), np.fromfile(path, np.uint8))
    seconds = time.perf_counter() - begin
    path.unlink()
    del on_device
    torch.cuda.empty_cache()
    bench.table.add("raw files in and out instead: one thread, pageable", f"{seconds:.2f} s, without a start or a hash",
                    f"ours, all of it: {ours_s:.2f} s", seconds / ours_s, holds=None if same else False)  # fmt: skip
