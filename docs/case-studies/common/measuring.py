"""What each study measures of a kernel: extraction, sizes, verdicts, the loop here and in the build."""

from __future__ import annotations

import json
import shutil
import statistics
from typing import TYPE_CHECKING, Any

from running import StepError, build_variables, run, time_steps

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from edits import Kernel
    from running import Study

TURNS = 3  # later edits, of which the median counts


def profile(study: Study, kind: str) -> dict[str, Any]:
    """Profile the program; its output is kept, to compare later ones with it."""
    step = f"profile-{kind}"
    out = study.folder / f"{kind}.txt"
    words = ("kc-profile", "--store", study.store, "--app-stdout", out, "--", *study.program(kind))
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
    done = run(*words, *sources, "--", *study.program(kernel.program), log=study.log(f"extract-{kernel.key}"))
    report = json.loads(done.out)
    digests = {step["name"]: step["digest"] for step in report["steps"]}
    capture = study.manifest(digests["capture"], store)
    source = study.manifest(digests["locate"], store)
    unit = (source["compile_command"] or {}).get("translation_unit")
    if unit is None:
        raise StepError(
            f"kc-locate found no compile command for {report['kernel'][:200]}; its output is in "
            f"{study.log(f'extract-{kernel.key}')}"
        )
    return {
        "took": done.cost,
        "steps": {step["name"]: round(step["duration_ns"] / 1e9, 2) for step in report["steps"]},
        "notes": [note for step in report["steps"] for note in step["notes"]],
        "passed": report["passed"],
        "kernel": report["kernel"],
        "unit": unit.rpartition("/")[2],
        "definition": source["definition"]["path"].rpartition("/")[2],
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


def measure_loop(study: Study, kernel: Kernel) -> dict[str, Any]:
    """Rebuild without an edit, then with right ones, then with a wrong one, and judge each.

    Later right edits are made in the program's source as well, in turn with the project: both loops meet
    the same load of the machine.
    """
    step = f"loop-{kernel.key}"
    project = study.folder / "projects" / kernel.key
    edited = find_edited(kernel, project)
    original = (study.original / kernel.file).read_text()
    edited.write_text(original)
    _restore(study, step, kernel, original)  # an earlier run may have been killed
    run("make", "-s", "-C", project, "clean", log=study.log(step))
    rows = {"unedited": _turn(study, step, project)}
    builds: list[dict[str, Any]] = []
    try:
        for turn in range(TURNS + 1):
            text = kernel.right.apply(original, turn)
            edited.write_text(text)
            rows[f"right-{turn}"] = _turn(study, step, project)
            if 0 < turn <= kernel.builds and all(build["finished"] for build in builds):
                builds.append(_build(study, step, kernel, text))
        edited.write_text(kernel.wrong.apply(original))
        rows["wrong"] = _turn(study, step, project)
    finally:
        edited.write_text(original)
        _restore_text(study, kernel, original)  # if this was interrupted, the next run builds it: put_back()
    _restore(study, step, kernel, original)
    later = [rows[f"right-{turn}"] for turn in range(1, TURNS + 1)]
    median = {part: _take_median(later, part) for part in ("recompile", "validate", "quick")}
    build = {**builds[0], **{part: _take_median(builds, part) for part in ("built", "test")}}
    kept = sorted(path.stem for path in project.glob("*.pch") if path.stat().st_size)
    return {"rows": rows, "median": median, "builds": builds, "build": build, "precompiled": kept}


def find_edited(kernel: Kernel, project: Path) -> Path:
    """Return the project's copy of the file that is edited: the kernel's own, or a header in deps/."""
    copies = (project / "deps").rglob(kernel.file.rpartition("/")[2])
    headers = [path for path in copies if path.as_posix().endswith(f"/{kernel.file}")]
    if len(headers) > 1:
        raise StepError(f"{kernel.file} is one of several files: " + ", ".join(map(str, headers)))
    variants = (project / f"kernel_variant.{suffix}" for suffix in ("cpp", "cu"))
    return headers[0] if headers else next(path for path in variants if path.exists())


def _take_median(rows: list[dict[str, Any]], part: str) -> dict[str, float]:
    return {unit: statistics.median(row[part][unit] for row in rows) for unit in ("wall_s", "cpu_s")}


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


def _build(study: Study, step: str, kernel: Kernel, text: str) -> dict[str, Any]:
    """Edit the program's own source, build it without ccache, and run the program."""
    log, before = study.log(step), study.read_ninja_log()
    _mark(study).touch()
    (study.edited / kernel.file).write_text(text)
    words = ("timeout", str(study.build_limit_s), *study.build_command)
    built = run(*words, log=log, variables=build_variables(cached=False), expect=(0, 124))
    seconds = time_steps(study.read_ninja_log() - before)
    # After a build that was stopped, the program is the one without the edit.
    completed = run(*study.program(kernel.program), log=log)
    compiled = [took for name, took in seconds.items() if name.endswith(".o")]
    return {
        "built": built.cost,
        "finished": built.exit_code == 0,
        "units": len(compiled),
        "longest_unit_s": max(compiled, default=0),
        "compile_s": round(sum(compiled), 2),
        "link_s": round(sum(seconds.values()) - sum(compiled), 2),
        "test": completed.cost,
        "same_text": completed.out == read_output(study, kernel.program),
    }


def _restore(study: Study, step: str, kernel: Kernel, original: str) -> None:
    """Bring the program's source and build back to what they were. ccache has what was compiled of it."""
    _restore_text(study, kernel, original)
    run(*study.build_command, log=study.log(step), variables=build_variables(cached=True))
    _mark(study).unlink(missing_ok=True)


def _restore_text(study: Study, kernel: Kernel, original: str) -> None:
    file = study.edited / kernel.file
    if file.read_text() != original:
        file.write_text(original)


def _mark(study: Study) -> Path:
    """Return the file that is there while the program's source or build may be those of an edit."""
    return study.folder / "edited"


def put_back(study: Study, kernels: Sequence[Kernel]) -> None:
    """Bring the program's source and build back, if an earlier run was stopped after an edit of it."""
    if not _mark(study).exists():
        return
    for kernel in kernels:
        _restore_text(study, kernel, (study.original / kernel.file).read_text())
    run(*study.build_command, log=study.log("put-back"), variables=build_variables(cached=True))
    _mark(study).unlink()


def read_output(study: Study, kind: str) -> str:
    """Return what the program printed under kc-profile, unedited."""
    return (study.folder / f"{kind}.txt").read_bytes().decode(errors="replace")
