"""Takes one kernel out of a program, and judges its project unedited, edited right, and edited wrong."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

from measuring import measure_capture
from running import StepError, run

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from edits import Kernel
    from running import Done, Study


def judge_kernel(
    study: Study,
    kernel: Kernel,
    *,
    choose: Sequence[str | Path] = (),
    sources: Sequence[str | Path] = (),
    make: Sequence[str | Path] = (),
) -> dict[str, Any]:
    """Capture a kernel, locate it, make a project, and judge it unedited, edited right and wrong.

    ``choose`` are more words for kc-capture, ``sources`` for kc-locate, and ``make`` for make.
    """
    log, store = study.log(kernel.key), study.folder / "store"
    project, away = study.folder / "projects" / kernel.key, study.folder / "empty"
    shutil.rmtree(project, ignore_errors=True)
    away.mkdir(exist_ok=True)
    own = {"KERNCAP_STORE": str(store)}
    words = ("kc-capture", "--kernel", kernel.pattern, *choose, "--", *study.program(kernel.program))
    captured = run(*words, log=log, cwd=away, variables=own)
    located = run("kc-locate", captured.out.strip(), *sources, log=log, cwd=away, variables=own)
    generated = run("kc-generate", located.out.strip(), "-o", project, log=log, cwd=away, variables=own)
    capture = study.manifest(captured.out.strip(), store)
    source = study.manifest(located.out.strip(), store)
    edited = find_variant(kernel, project)
    original = edited.read_text()
    texts = {
        "unedited": original,
        "right": kernel.right.apply(original),
        "wrong": kernel.wrong.apply(original),
    }
    verdicts = {}
    for name, text in texts.items():
        built = rebuild(kernel, project, text, log, make)
        judged = run("kc-validate", "--json", project, log=log, variables=own, expect=(0, 1))
        verdicts[name] = {**read_verdict(judged), "build": built.cost, "validate": judged.cost}
    edited.write_text(original)
    return {
        "kernel": capture["kernel"]["demangled_name"],
        "outcome": source["outcome"],
        "language": source["language"],
        "same_instructions": (source["unedited"] or {}).get("same_instructions"),
        "lines": len(original.splitlines()),
        "sizes": measure_capture(capture),
        "took": {"capture": captured.cost, "locate": located.cost, "generate": generated.cost},
        "verdicts": verdicts,
        "operator": kernel.operator,
        "program": kernel.program,
        "right": kernel.right.describe(),
        "wrong": kernel.wrong.describe(),
    }


def find_variant(kernel: Kernel, project: Path) -> Path:
    """Return the project's file that is edited. Its name may lack the ending, which is the compiler's."""
    found = list(project.glob(kernel.file if "." in kernel.file else f"{kernel.file}*"))
    if len(found) != 1:
        raise StepError(f"{project} has {len(found)} files {kernel.file}")
    return found[0]


def rebuild(kernel: Kernel, project: Path, text: str, log: Path, make: Sequence[str | Path] = ()) -> Done:
    """Write the edited file, and build the project."""
    find_variant(kernel, project).write_text(text)
    target = "assemble" if kernel.file.endswith(".s") else "recompile"
    own = {"KERNCAP_STORE": str(project.parents[1] / "store")}
    return run("make", "-s", "-C", project, target, *make, log=log, variables=own)


def read_verdict(judged: Done) -> dict[str, Any]:
    """Return what the page says of a verdict."""
    verdict = json.loads(judged.out)
    found = {name: verdict[name] for name in ("passed", "mode", "pre_states", "reasons")}
    return {**found, "code": (verdict["variant"] or {}).get("payload")}
