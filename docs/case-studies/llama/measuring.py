"""The study's measurements: extraction, verdicts, the edit loop, the same edit in the build, and sizes."""

from __future__ import annotations

import json
import shutil
import statistics
from typing import TYPE_CHECKING, Any

from building import build_command, build_variables, program, read_ninja_log, time_steps
from kernels import CUDA
from running import Study, run

if TYPE_CHECKING:
    from pathlib import Path

    from kernels import Edit, Kernel

TURNS = 3  # later edits, of which the median counts
TEST_LIMIT_S, BUILD_LIMIT_S = 300, 3600
CAPTURES = 10


def profile(study: Study, kind: str) -> dict[str, Any]:
    """Profile the program; its output is kept, to compare later ones with it."""
    step = f"profile-{kind}"
    out = study.folder / f"{kind}.txt"
    words = ("kc-profile", "--store", study.store, "--app-stdout", out, "--", *program(study, kind))
    done = run(*words, log=study.log(step))
    digest = done.out.strip()
    kernels = study.manifest(digest, study.store)["kernels"]
    return {
        "digest": digest,
        "took": done.cost,
        "kernels": len(kernels),
        "dispatches": sum(kernel["calls"] for kernel in kernels),
        "ranking": [[kernel["name"], kernel["calls"], kernel["share"]] for kernel in kernels],
    }


def extract(study: Study, kernel: Kernel) -> dict[str, Any]:
    """Make the project by one command, from nothing: it profiles, captures, locates, generates, replays."""
    project = study.folder / "projects" / kernel.key
    shutil.rmtree(project, ignore_errors=True)
    store = study.folder / "stores" / kernel.key
    shutil.rmtree(store, ignore_errors=True)
    words = ("kc-extract", "--json", "--store", store, "--kernel", kernel.pattern, "--output", project)
    sources = ("--source-dir", study.source, "--compile-commands", study.build / "compile_commands.json")
    done = run(
        *words, *sources, "--", *program(study, kernel.program), log=study.log(f"extract-{kernel.key}")
    )
    report = json.loads(done.out)
    digests = {step["name"]: step["digest"] for step in report["steps"]}
    capture = study.manifest(digests["capture"], store)
    source = study.manifest(digests["locate"], store)
    return {
        "took": done.cost,
        "steps": {step["name"]: round(step["duration_ns"] / 1e9, 2) for step in report["steps"]},
        "notes": [note for step in report["steps"] for note in step["notes"]],
        "passed": report["passed"],
        "kernel": report["kernel"],
        "unit": source["compile_command"]["translation_unit"].rpartition("/")[2],
        "edited": source["definition"]["path"].rpartition("/")[2],
        "unedited": source["unedited"],
        "precompiled": source["precompiled"] is not None,
        "sizes": measure_capture(capture) | measure_usage(digests["capture"], store),
    }


def measure_capture(capture: dict[str, Any]) -> dict[str, int]:
    """Count a capture's memory. Raw is what copies of both states have."""
    regions = [region for region in capture["regions"] if region["pre"] is not None]
    size = sum(region["size_bytes"] for region in regions)
    written = sum(region["written_size_bytes"] or 0 for region in regions)
    return {"regions": len(regions), "raw_bytes": 2 * size, "written_bytes": written}


def measure_usage(digest: str, store: Path) -> dict[str, int]:
    """Return the bytes of an artifact's files in the store."""
    words = ("kc-store", "du", "--json", "--store", store, digest)
    usage = json.loads(run(*words, log=store.parent / "du.log").out)["artifacts"][0]["usage"]
    return {"stored_bytes": usage["stored_bytes"]}


def judge(study: Study, kernel: Kernel) -> dict[str, Any]:
    """Rebuild without an edit, then with right ones, then with a wrong one. Measure each loop."""
    step, project = f"loop-{kernel.key}", study.folder / "projects" / kernel.key
    edited = project / "kernel_variant.cpp"
    original = (study.original / kernel.file).read_text()
    edited.write_text(original)
    run("make", "-s", "-C", project, "clean", log=study.log(step))
    rows = {"unedited": _turn(study, step, project)}
    for turn in range(TURNS + 1):
        edited.write_text(kernel.right.apply(original, turn))
        rows[f"right-{turn}"] = _turn(study, step, project)
    edited.write_text(kernel.wrong.apply(original))
    rows["wrong"] = _turn(study, step, project)
    edited.write_text(original)
    later = [rows[f"right-{turn}"] for turn in range(1, TURNS + 1)]
    parts = {
        part: {unit: statistics.median(row[part][unit] for row in later) for unit in ("wall_s", "cpu_s")}
        for part in ("recompile", "validate", "quick")
    }
    return {"rows": rows, "median": parts}


def _turn(study: Study, step: str, project: Path) -> dict[str, Any]:
    log = study.log(step)
    recompiled = run("make", "-s", "-C", project, "recompile", log=log)
    quick = run("kc-validate", "--json", "--quick", project, log=log, expect=(0, 1))
    validated = run("kc-validate", "--json", project, log=log, expect=(0, 1))
    verdict = json.loads(validated.out)
    return {
        "recompile": recompiled.cost,
        "validate": validated.cost,
        "quick": quick.cost,
        "passed_quick": json.loads(quick.out)["passed"],
        "passed": verdict["passed"],
        "mode": verdict["mode"],
        "pre_states": verdict["pre_states"],
        "reasons": verdict["reasons"],
    }


def build_again(study: Study, kernel: Kernel) -> dict[str, Any]:
    """Make the first right edit in llama.cpp's own source, build, and run the program and the test."""
    step = f"build-{kernel.key}"
    log, file = study.log(step), study.source / CUDA / kernel.file
    original = (study.original / kernel.file).read_text()
    if file.read_text() != original:  # an earlier run was killed
        file.write_text(original)
    run(*build_command(study), log=log, variables=build_variables(cached=True))  # up to date before the edit
    before = read_ninja_log(study)
    try:
        file.write_text(kernel.right.apply(original, 1))
        words = ("timeout", str(BUILD_LIMIT_S), *build_command(study))
        built = run(*words, log=log, variables=build_variables(cached=False), expect=(0, 124))
        seconds = time_steps(read_ninja_log(study) - before)
        completed = run(*program(study, kernel.program), log=log)
        expected = (study.folder / f"{kernel.program}.txt").read_bytes().decode(errors="replace")
        same = completed.out == expected
    finally:
        file.write_text(original)
        # ccache has what the edit replaced.
        run(*build_command(study), log=log, variables=build_variables(cached=True))
    compiled = [took for name, took in seconds.items() if name.endswith(".o")]
    return {
        "built": built.cost,
        "finished": built.exit_code == 0,
        "units": len(compiled),
        "longest_unit_s": max(compiled, default=0),
        "compile_s": round(sum(compiled), 2),
        "link_s": round(sum(seconds.values()) - sum(compiled), 2),
        "test": completed.cost,
        "same_text": same,
    }


def test_operator(study: Study, operator: str) -> dict[str, Any]:
    """Run llama.cpp's own tests of an operator, but not longer than its limit."""
    words = ("timeout", str(TEST_LIMIT_S), study.build / "bin/test-backend-ops", "test", "-o", operator)
    done = run(*words, "-b", "ROCm0", log=study.log(f"test-{operator}"), expect=(0, 1, 124))
    tests = [line for line in done.out.splitlines() if line.startswith(f"  {operator}(")]
    return {
        "took": done.cost,
        "finished": done.exit_code != 124,
        "passed": sum("OK" in line for line in tests),
        "failed": sum("FAIL" in line for line in tests),
    }


def capture_layers(study: Study, kernel: Kernel) -> dict[str, Any]:
    """Capture one dispatch, and ten dispatches of one run, each into a store of its own."""
    found: dict[str, Any] = {"kernel": kernel.key}
    for count in (1, CAPTURES):
        step, store = f"layers-{count}", study.folder / "stores" / f"layers-{count}"
        shutil.rmtree(store, ignore_errors=True)
        every = ("--count", str(count), "--every", "7")  # each layer multiplies by seven matrices
        words = ("kc-capture", "--store", store, "--kernel", kernel.pattern, *every, "--stop-after", "--")
        done = run(*words, *program(study, kernel.program), log=study.log(step), expect=(0,))
        digests = done.out.split()
        sizes = [measure_capture(study.manifest(digest, store)) for digest in digests]
        usage = json.loads(run("kc-store", "du", "--json", "--store", store, log=study.log(step)).out)
        found[str(count)] = {
            "captures": len(digests),
            "took": done.cost,
            "raw_bytes": sum(size["raw_bytes"] for size in sizes),
            "written_bytes": sum(size["written_bytes"] for size in sizes),
            "stored_bytes": usage["store"]["stored_bytes"],
            "each": [row["usage"] for row in usage["artifacts"]],
        }
    return found


def describe(edit: Edit, turn: int = 0) -> str:
    """Say what an edit does."""
    return edit.says.replace("{n}", str(edit.values[turn % len(edit.values)]))
