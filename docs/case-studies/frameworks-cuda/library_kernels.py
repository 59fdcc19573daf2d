"""Takes kernels out of programs that use libraries, and judges them with their source or without."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cuda_libraries import ATTENTION, COMPILED, FLASHINFER, XLA
from framework_kernels import CUPY
from judging import judge_kernel, read_verdict
from measuring import measure_capture
from running import StepError, run
from silenced import silence

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from edits import Kernel
    from running import Study

__all__ = [
    "ATTENTION",
    "COMPILED",
    "CUPY",
    "FLASHINFER",
    "XLA",
]  # with the functions: all that study.py wants
COMPILE_LIMIT_S = 500
STEP_KERNELS = 8  # of a training step, which has more than forty


def check_right(output: Path) -> None:
    """Raise StepError if a program did not say that its results are right."""
    words = output.read_text(errors="replace").replace(",", " ").split()
    if not {"right", "ok"} & set(words):
        raise StepError(f"the program's results are not right: {' '.join(words)[:300]}")


def find_kernel(profiled: dict[str, Any], pattern: str) -> str:
    """Return the full name of the kernel that took most time, of those with ``pattern`` in their names."""
    names = [row[0] for row in profiled["ranking"]]
    found = [name for name in names if pattern in name]
    if not found:
        raise StepError(f"no kernel {pattern} in the profile; there are: {', '.join(names)[:1500]}")
    return found[0]


def judge_edits(
    study: Study,
    kernel: Kernel,
    profiled: dict[str, Any],
    *,
    choose: Sequence[str | Path] = (),
    sources: Sequence[str | Path] = (),
) -> dict[str, Any]:
    """Take a kernel with its source, and judge it unedited, edited right and edited wrong."""
    output = study.folder / f"captured-{kernel.key}.txt"
    chosen = replace(kernel, pattern=find_kernel(profiled, kernel.pattern))
    make = (f"PYTHON={sys.executable}",) if kernel.file.endswith(".py") else ()
    words = (*choose, "--app-stdout", output)
    found = judge_kernel(study, chosen, choose=words, sources=sources, make=make)
    check_right(output)
    return found


def judge_code(
    study: Study, key: str, program: str, pattern: str, profiled: dict[str, Any]
) -> dict[str, Any]:
    """Take a kernel without source. Its own code must pass as a variant, and fail if it ends at once."""
    log, folder = study.log(key), study.folder / "code" / key
    folder.mkdir(parents=True, exist_ok=True)
    away = study.folder / "empty"
    away.mkdir(exist_ok=True)
    output = folder / "output.txt"
    words = ("kc-capture", "--kernel", find_kernel(profiled, pattern), "--app-stdout", output)
    captured = run(*words, "--", *study.program(program), log=log, cwd=away)
    check_right(output)
    digest = captured.out.strip()
    capture = study.manifest(digest, study.store)
    sizes = measure_capture(capture)
    if not sizes["written_bytes"]:
        raise StepError("the captured dispatch wrote nothing, so that any variant would pass")
    located = run("kc-locate", digest, "--source-dir", away, log=log, cwd=away, expect=range(7))
    source = study.manifest(located.out.strip(), study.store) if located.out.strip() else {}
    code = read_payload(study, capture["kernel"]["code_object"]["payload"])
    variants = {"same": folder / "same.cubin", "silent": folder / "silent.cubin"}
    variants["same"].write_bytes(code)
    variants["silent"].write_bytes(silence(code, capture["kernel"]["mangled_name"]))
    verdicts = {}
    for name, options in {
        "captured": (), **{name: ("--variant", path) for name, path in variants.items()}
    }.items():  # fmt: skip
        judged = run("kc-validate", "--json", digest, *options, log=log, cwd=away, expect=(0, 1))
        verdicts[name] = {**read_verdict(judged), "validate": judged.cost}
    return {
        "kernel": capture["kernel"]["demangled_name"],
        "outcome": source.get("outcome", f"exit code {located.exit_code}"),
        "sizes": sizes,
        "took": {"capture": captured.cost, "locate": located.cost},
        "verdicts": verdicts,
        "operator": XLA.get(pattern, "scaled_dot_product_attention"),
        "program": program,
    }


def read_payload(study: Study, digest: str) -> bytes:
    """Return a file of the store."""
    words = ("kc-store", "cat", "--store", study.store, digest)
    return subprocess.run(words, capture_output=True, check=True).stdout


def judge_many(study: Study, profiled: dict[str, Any]) -> dict[str, Any]:
    """Capture kernels of a training step, evenly chosen from its profile, and judge each as it is."""
    log, away = study.log("training"), study.folder / "empty"
    away.mkdir(exist_ok=True)
    names = [row[0] for row in profiled["ranking"] if not row[0].startswith("__")]
    judged: dict[str, Any] = {}
    for name in names[:: -(-len(names) // STEP_KERNELS)]:
        output = study.folder / "captured-training.txt"
        words = ("kc-capture", "--kernel", name, "--exact", "--app-stdout", output)
        captured = run(
            *words, "--", *study.program("training"), log=log, cwd=away, expect=range(-64, 256)
        )  # fmt: skip
        if captured.exit_code:
            judged[name] = {"exit_code": captured.exit_code, "passed": None, "capture": captured.cost}
            continue
        words = ("kc-validate", "--json", captured.out.strip())
        told = run(*words, log=log, cwd=away, expect=range(-64, 256))
        passed = json.loads(told.out)["passed"] if told.exit_code in (0, 1) else None
        costs = {"capture": captured.cost, "validate": told.cost}
        judged[name] = {"exit_code": told.exit_code, "passed": passed, **costs}
    if not judged:
        raise StepError("the profile has no kernels")
    return {"kernels_of_the_step": len(names), "judged": judged, "program": "training"}


def run_together(study: Study, commands: Mapping[str, Sequence[str | Path]]) -> dict[str, Any]:
    """Run commands at the same time, and wait for all. Each has a log; its name is in the results."""
    began, started = time.monotonic(), {}
    for name, words in commands.items():
        log = study.log(f"build-{name}")
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("w") as out:
            started[name] = subprocess.Popen([str(word) for word in words], stdout=out, stderr=out)
    failed = []
    for name, process in started.items():
        try:
            process.wait(max(1.0, COMPILE_LIMIT_S - (time.monotonic() - began)))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.returncode:
            failed.append(name)
    if failed:
        lines = study.log(f"build-{failed[0]}").read_text(errors="replace").splitlines()
        raise StepError(f"these did not build: {', '.join(failed)}\n" + "\n".join(lines[-15:]))
    return {"built": list(started), "wall_s": round(time.monotonic() - began, 1)}
