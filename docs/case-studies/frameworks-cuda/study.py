"""PyTorch, Triton, CuPy, JAX and FlashInfer on an NVIDIA GPU: from a profile to verdicts on edits.

`python3 docs/case-studies/frameworks-cuda/study.py` uses the packages that are installed, and names those
that are not. A kernel that fails is named with its error, and the study goes on with the next one.
results.json beside this file is written at the end; what is known before is in the folder's own. The same
command goes on where a run was stopped, and `--again STEP` does a step again that has failed.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import traceback
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

HERE = Path(__file__).resolve().parent
TOP = HERE.parents[2]
sys.path[1:1] = [str(HERE.parent / "common"), str(HERE.parent / "frameworks")]

import library_kernels  # noqa: E402 - after the path of what studies share
import reductions  # noqa: E402
from command import describe_cuda_machine, run_whole, write_results  # noqa: E402
from measuring import profile  # noqa: E402
from running import StepError, Study  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cuda_libraries import Compiled

    Work = Callable[[dict[str, Any]], dict[str, Any]]  # from a program's profile to a kernel's results

PROGRAMS = TOP / "tests/device/programs/python_libraries"
FRAMEWORKS = HERE.parent / "frameworks/programs"
# What each group of kernels needs: the module that is imported, and the package that has it.
NEEDS = {
    "reductions": {"torch": "torch", "ninja": "ninja"},
    "attention": {"torch": "torch"},
    "training": {"torch": "torch"},
    "compiled": {"torch": "torch", "triton": "triton"},
    "cupy": {"cupy": "cupy-cuda13x"},
    "jax": {"jax": "jax", "jax_cuda13_plugin": "jax-cuda13-plugin"},
    "flashinfer": {"torch": "torch", "flashinfer": "flashinfer-python", "ninja": "ninja"},
}
PACKAGES = (
    "torch", "triton", "cupy-cuda13x", "jax", "jax-cuda13-plugin", "flashinfer-python", "numpy", "ninja",
)  # fmt: skip
ERROR_LINES = 12


class FrameworksOnCuda(Study):
    """Programs in Python that use packages which are installed."""

    def __init__(self, folder: Path, jobs: int, build_limit_s: int) -> None:
        super().__init__(folder, jobs, build_limit_s)
        # The programs are started by the stages, and inherit this.
        os.environ.update(
            {
                "KERNCAP_STORE": str(self.store),
                # JAX else takes most of the GPU's memory at its start, and all of it is captured.
                "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
                "TF_CPP_MIN_LOG_LEVEL": "2",
                "CUPY_ACCELERATORS": "",  # sums by CuPy's own kernels, not by CUB's
                "CUPY_CACHE_DIR": str(folder / "cupy"),
                "FLASHINFER_WORKSPACE_BASE": str(folder / "flashinfer"),
                "FLASHINFER_USE_CUDA_NORM": "1",
                "TRITON_CACHE_DIR": str(folder / "triton"),
                "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
                "TORCH_CUDA_ARCH_LIST": "9.0",
            }
        )

    @property
    def edited(self) -> Path:
        """Nothing of a build is edited."""
        return HERE / "programs"

    def program(self, name: str) -> tuple[str | Path, ...]:
        """Return the command of a program: a script's name, and its argument behind a dash."""
        script, _, argument = name.partition("-")
        words = (argument,) if argument else ()
        match script:
            case "reductions":
                return (sys.executable, HERE / "programs/reductions_program.py", self.folder / "extension")
            case "cupy" | "jax":
                return (sys.executable, FRAMEWORKS / f"{script}_program.py")
            case "flashinfer":
                return (sys.executable, PROGRAMS / "flashinfer_kernels.py", *words)
        return (sys.executable, PROGRAMS / f"{script}.py", *words)

    def keep(self, results: dict[str, Any]) -> None:
        """Write what is known by now into the study's folder, unless steps are only listed."""
        if self._planned is None:
            write_results(results, self.folder)

    def forget_missing(self, tasks: Sequence[Task]) -> None:
        """Drop the results of kernels whose packages were missing and are installed now."""
        if self._planned is not None:
            return
        files = {task.key: self.step_file(task.key) for task in tasks if not find_missing(task.group)}
        stale = [
            key for key, file in files.items() if file.exists() and "missing" in json.loads(file.read_text())
        ]
        for name in [*stale, *(("packages", "build") if stale else ())]:
            self.step_file(name).unlink(missing_ok=True)

    def attempt(self, name: str, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Do a step. If it fails, its result is the error: the study goes on."""
        return self.step(name, partial(catch, self, name, work))


def catch(study: Study, name: str, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return the result of work, or the last lines of its log and its error. Ctrl-C is passed on."""
    try:
        return work()
    except Exception as error:
        log, told = study.log(name), str(error)
        if not isinstance(error, StepError):
            told = traceback.format_exc()
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
        shown = [line[:300] for line in [*lines, *told.splitlines()]]
        return {"failed": hide_folders("\n".join(shown[-ERROR_LINES:]), study.folder)}


def hide_folders(text: str, folder: Path) -> str:
    """Replace the folders of this machine in what the page shows."""
    names = {folder: "FOLDER", TOP: "CHECKOUT"}
    names |= dict.fromkeys(map(Path, filter(None, sys.path)), "PACKAGES")
    for path, name in {**names, Path(sys.prefix): "PYTHON", Path.home(): "HOME"}.items():
        if len(path.parts) > 2:  # else it is part of other paths, such as /usr
            text = text.replace(str(path), name)
    return text


def describe() -> dict[str, Any]:
    """Say what the study runs on. Raises StepError where it can take no kernel at all."""
    machine = describe_cuda_machine()
    if all(map(find_missing, NEEDS)):
        packages = sorted({name for group in NEEDS.values() for name in group.values()})
        raise StepError(
            f"no program of this study can run: of the packages {', '.join(packages)} too few are installed\n"
            f"  next: install some for {sys.executable}"
        )
    return machine


def describe_packages() -> dict[str, Any]:
    """Say which versions are installed; none where a package is missing."""
    found: dict[str, Any] = {"python": sys.version.split()[0]}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    return {"versions": found}


def find_missing(group: str) -> list[str]:
    """List the packages that a group of kernels needs and that are not installed."""
    return [
        package
        for module, package in NEEDS[group].items()
        if find_spec(module) is None and shutil.which(module) is None  # ninja may be a program only
    ]


def build(study: FrameworksOnCuda) -> dict[str, Any]:
    """Build our operators and FlashInfer's at once: what that takes is no result."""
    commands = {}
    if not find_missing("reductions"):
        commands["reductions"] = (*study.program("reductions"), "--build")
    if not find_missing("flashinfer"):
        units = library_kernels.FLASHINFER
        commands |= {each.kernel.program: study.program(each.kernel.program) for each in units}
    return library_kernels.run_together(study, commands)


def profile_program(study: FrameworksOnCuda, name: str) -> dict[str, Any]:
    """Profile a program, which must say that its results are right."""
    found = profile(study, name)
    library_kernels.check_right(study.folder / f"{name}.txt")
    return found


@dataclass(frozen=True)
class Task:
    """A kernel to take: what it belongs to, its name in the results, its program, and what takes it."""

    group: str
    key: str
    program: str
    work: Work


def list_tasks(study: FrameworksOnCuda) -> list[Task]:
    """List all kernels. What matters most comes first: a run may be stopped."""
    tasks = [Task("reductions", "reduce_kernel", "reductions", partial(reductions.measure, study))]
    for backend, pattern in library_kernels.ATTENTION.items():
        name = f"attention-{backend}"
        tasks.append(
            Task("attention", name, name, partial(library_kernels.judge_code, study, name, name, pattern))
        )
    for unit in library_kernels.FLASHINFER:
        work = partial(judge_flashinfer, study, unit)
        tasks.append(Task("flashinfer", unit.kernel.key, unit.kernel.program, work))
    kernel, later = library_kernels.COMPILED, ("--dispatch", "1")
    work: Work = partial(library_kernels.judge_edits, study, kernel, choose=later)
    tasks.append(Task("compiled", kernel.key, kernel.program, work))
    for each in library_kernels.CUPY:
        named = replace(each, key=f"cupy-{each.key}")
        work = partial(library_kernels.judge_edits, study, named)
        tasks.append(Task("cupy", named.key, named.program, work))
    for pattern in library_kernels.XLA:
        work = partial(library_kernels.judge_code, study, f"jax-{pattern}", "jax", pattern)
        tasks.append(Task("jax", f"jax-{pattern}", "jax", work))
    tasks.append(Task("training", "training", "training", partial(library_kernels.judge_many, study)))
    return tasks


def judge_flashinfer(study: FrameworksOnCuda, unit: Compiled, profiled: dict[str, Any]) -> dict[str, Any]:
    """Judge a kernel of FlashInfer, whose source is in its package and whose build has a build.ninja."""
    commands = list((study.folder / "flashinfer").rglob(f"cached_ops/{unit.build}/build.ninja"))
    if len(commands) != 1:
        raise StepError(f"there are {len(commands)} build.ninja of {unit.build}")
    headers = find_package("flashinfer") / "data/include"
    sources = ("--source-dir", headers, "--compile-commands", commands[0])
    return library_kernels.judge_edits(study, unit.kernel, profiled, sources=sources)


def find_package(name: str) -> Path:
    """Return the folder of a package, without importing it."""
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise StepError(f"{name} is not installed")
    return Path(spec.origin).parent


def run_study(study: FrameworksOnCuda) -> dict[str, Any]:
    """Do all steps, and return their results. A missing package is a result of its kernels."""
    tasks = list_tasks(study)
    study.forget_missing(tasks)
    results: dict[str, Any] = {
        "machine": study.step("machine", describe),
        "packages": study.step("packages", describe_packages),
        "build": study.attempt("build", partial(build, study)),
        "profiles": {},
        "kernels": {},
        "remarks": [],  # for people to add: what the script cannot say
    }
    profiles = results["profiles"]
    for task in tasks:
        if missing := find_missing(task.group):
            found = study.step(task.key, partial(dict, missing=missing))
        else:
            if task.program not in profiles:
                work = partial(profile_program, study, task.program)
                profiles[task.program] = study.attempt(f"profile-{task.program}", work)
            found = study.attempt(task.key, partial(take, task.work, profiles[task.program]))
        results["kernels"][task.key] = {"group": task.group, **found}
        study.keep(results)
    return results


def take(work: Work, profiled: dict[str, Any]) -> dict[str, Any]:
    """Take a kernel out of a program, if the program could be profiled."""
    if "failed" in profiled:
        raise StepError(f"the program could not be profiled:\n{profiled['failed']}")
    return work(profiled)


if __name__ == "__main__":
    run_whole(
        "python3 docs/case-studies/frameworks-cuda/study.py", HERE, FrameworksOnCuda, run_study, __doc__ or ""
    )
