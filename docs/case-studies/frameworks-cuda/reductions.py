"""Takes a kernel of PyTorch's Reduce.cuh out of a unit, and compares its project with the whole unit."""

from __future__ import annotations

import itertools
import shlex
import shutil
import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cuda_libraries import REDUCTION
from judging import find_variant, rebuild
from library_kernels import judge_edits
from running import StepError, build_variables, run

if TYPE_CHECKING:
    from running import Done, Study

OBJECT = "reductions.cuda.o"
TIMES = 2  # the whole unit takes most of a minute


def measure(study: Study, profiled: dict[str, Any]) -> dict[str, Any]:
    """Judge the kernel; then compile its project with right edits, and the whole unit in turn with that."""
    log, extension = study.log(REDUCTION.key), study.folder / "extension"
    include = find_include(extension)
    sources = ("--source-dir", study.edited, "--source-dir", include)
    commands = ("--compile-commands", extension / "build.ninja")
    found = judge_edits(study, REDUCTION, profiled, sources=(*sources, *commands))
    project = study.folder / "projects" / REDUCTION.key
    original = find_variant(REDUCTION, project).read_text()
    again = rebuild(REDUCTION, project, original, log)  # judge_kernel() left it with the wrong edit
    turns, whole = [], []
    for turn in range(TIMES):
        turns.append(rebuild(REDUCTION, project, REDUCTION.right.apply(original, turn), log))
        whole.append(compile_unit(study, extension, log))
    rebuild(REDUCTION, project, original, log)
    source = study.manifest("@source", study.store)
    recompile, unit = take_median(turns), take_median(whole)
    return {
        **found,
        "unedited": source["unedited"],
        "definition": Path(source["definition"]["path"]).name,
        "files": len(source["files"]),
        "recompile_unedited": again.cost,
        "recompile": recompile,
        "unit": unit,
        "units": [each.cost for each in whole],
        "ratio": round(unit["cpu_s"] / recompile["cpu_s"], 2),
    }


def find_include(extension: Path) -> Path:
    """Return PyTorch's folder of headers, as the build's own commands name it."""
    words = shlex.split(
        (extension / "build.ninja").read_text().partition("cuda_cflags =")[2].partition("\n")[0]
    )
    folders = [Path(word) for before, word in itertools.pairwise(words) if before == "-isystem"]
    for folder in folders:
        if (folder / "ATen/native/cuda/Reduce.cuh").exists():
            return folder
    raise StepError(f"{extension}/build.ninja names no folder with ATen/native/cuda/Reduce.cuh")


def compile_unit(study: Study, extension: Path, log: Path) -> Done:
    """Compile the whole unit by its own command, without any cache, in a folder of its own."""
    told = run("ninja", "-C", extension, "-t", "commands", OBJECT, log=log).out
    lines = [line for line in told.splitlines() if f"-o {OBJECT}" in line]
    if len(lines) != 1:
        raise StepError(f"ninja names {len(lines)} commands for {OBJECT}")
    folder = study.folder / "unit"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return run("sh", "-c", lines[0], log=log, cwd=folder, variables=build_variables(cached=False))


def take_median(done: list[Done]) -> dict[str, float]:
    """Return the medians of what commands took."""
    return {unit: statistics.median(each.cost[unit] for each in done) for unit in ("wall_s", "cpu_s")}
