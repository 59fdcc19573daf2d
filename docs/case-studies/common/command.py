"""The command line of a study, and the steps that all studies have."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ending import end_children
from folder import describe_checkout, describe_run, hold
from measuring import extract, measure_loop, profile, put_back
from running import StepError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from edits import Kernel
    from running import Study

RESULTS = "results.json"
PACKAGES = ("libamdhip64-dev", "librocblas-dev", "libhipcub-dev", "librocprim-dev", "clang-21", "cmake")


def describe_machine() -> dict[str, Any]:
    """Say what the study runs on."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    checkout = describe_checkout(Path(__file__).resolve().parent)
    return {
        "processor": models[0] if models else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1),
        **_describe_runtime(),
        "commit": checkout["commit"],
        "changed": checkout["changes"] != "none",
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }


def describe_cuda_machine() -> dict[str, Any]:
    """Say which NVIDIA GPU the study runs on. Raises StepError where it cannot run."""
    machine = describe_machine()
    if "gpu" not in machine:
        raise StepError("this is a ROCm root, and the study needs an NVIDIA GPU\n  next: start it outside")
    if shutil.which("kc-profile") is None:
        raise StepError(
            "kerncap-stages is not installed here: there is no kc-profile\n"
            "  next: install it as README.md says, and start the study by the same environment's python3"
        )
    return machine


def _describe_runtime() -> dict[str, Any]:
    """Say which ROCm root this is, or else which NVIDIA GPU and toolkit."""
    file = Path("/etc/kerncap-root.json")
    if file.exists():
        root = json.loads(file.read_text())
        packages = {name: root["packages"][name] for name in PACKAGES if name in root["packages"]}
        return {"rocm": root["rocm"], "packages": packages}
    for tool in ("nvidia-smi", "nvcc"):
        if shutil.which(tool) is None:
            raise StepError(
                f"this is no ROCm root, and there is no {tool}\n"
                "  next: for HIP start the study by make; for CUDA put NVIDIA's tools on PATH"
            )
    words = ("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")
    gpu = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()[0]
    version = subprocess.run(("nvcc", "--version"), capture_output=True, text=True, check=True).stdout
    return {"gpu": gpu, "nvcc": version.splitlines()[-1]}


def measure_kernels(study: Study, kernels: Sequence[Kernel]) -> dict[str, Any]:
    """Profile the programs, and take each kernel through extraction and the loop."""
    profiles = {
        name: study.step(f"profile-{name}", partial(profile, study, name))
        for name in dict.fromkeys(kernel.program for kernel in kernels)
    }
    found: dict[str, Any] = {
        kernel.key: {
            "name": kernel.key,
            "file": kernel.file.rpartition("/")[2],
            "program": kernel.program,
            "operator": kernel.operator,
            "right": kernel.right.describe(1),
            "wrong": kernel.wrong.describe(),
        }
        for kernel in kernels
    }
    for name, work in (("extract", extract), ("loop", measure_loop)):
        for kernel in kernels:
            found[kernel.key][name] = study.step(f"{name}-{kernel.key}", partial(work, study, kernel))
    return {"profiles": profiles, "kernels": found}


def make_parser(command: str, here: Path, text: str) -> argparse.ArgumentParser:
    """Return a parser with the options that all studies have. ``here`` is the folder of a study's page."""
    parser = argparse.ArgumentParser(prog=command, description=text)
    cache = Path(os.environ.get("KERNCAP_ROOT_CACHE", Path.home() / ".cache/kerncap-stages"))
    parser.add_argument(
        "--folder",
        type=Path,
        default=cache / "case-studies" / here.name,
        help="where it builds and keeps results (default: %(default)s)",
    )
    parser.add_argument(
        "--again",
        action="append",
        default=[],
        metavar="STEP",
        help="do this step again, but not those after it; a wrong name lists all steps; repeatable",
    )
    parser.add_argument(
        "--afresh",
        action="store_true",
        help="remove what is in the folder, except source archives, and do all steps again",
    )
    parser.add_argument("--page", action="store_true", help="do no step: write the page from results.json")
    return parser


def _parse_positive(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 1 on")
    return int(text)


def run_command(
    command: str,
    here: Path,
    kind: type[Study],
    kernels: Sequence[Kernel],
    run_study: Callable[[Any, Sequence[Kernel], argparse.Namespace], dict[str, Any]],
    text: str,
    *,
    has_tests: bool = False,
) -> None:
    """Run a study, or only write its page again. ``here`` is the folder of its results and its page."""
    parser = make_parser(command, here, text)
    parser.add_argument(
        "--jobs",
        type=_parse_positive,
        default=len(os.sched_getaffinity(0)),
        metavar="N",
        help="how many units a build compiles at a time (default: %(default)s)",
    )
    parser.add_argument(
        "--build-limit",
        type=_parse_positive,
        default=3600,
        metavar="S",
        help="stop a build after an edit if it takes longer, in seconds (default: %(default)s)",
    )
    names = [kernel.key for kernel in kernels]
    parser.add_argument(
        "--kernel",
        action="append",
        choices=names,
        help="measure only this kernel, and print its results instead of writing the page; repeatable",
    )
    if has_tests:
        parser.add_argument(
            "--tests", action="store_true", help="also run and time the program's own tests of each kernel"
        )
    options = parser.parse_args()
    if not options.page:
        chosen = [kernel for kernel in kernels if kernel.key in (options.kernel or names)]
        made_by = describe_run(here, {"--jobs": options.jobs, "--build-limit": options.build_limit})
        results = do_steps(
            options,
            made_by,
            lambda folder: kind(folder, options.jobs, options.build_limit),
            lambda study: run_study(study, chosen, options),
            kernels,
        )
        if options.kernel:
            print(json.dumps(results, indent=1))  # the page shows all kernels
            return
        write_results(results, here)
    write_page(here)


def run_whole(
    command: str,
    here: Path,
    kind: type[Study],
    run_study: Callable[[Any], dict[str, Any]],
    text: str,
) -> None:
    """As ``run_command``, for a study that builds no program, and takes all its kernels."""
    options = make_parser(command, here, text).parse_args()
    if not options.page:
        results = do_steps(options, describe_run(here, {}), lambda folder: kind(folder, 1, 0), run_study, ())
        write_results(results, here)
    write_page(here)


def do_steps(
    options: argparse.Namespace,
    made_by: dict[str, Any],
    open_study: Callable[[Path], Study],
    run_study: Callable[[Any], dict[str, Any]],
    kernels: Sequence[Kernel],
) -> dict[str, Any]:
    """Do the steps that have no result yet, and return all results. Ends the process if that fails."""
    folder = options.folder.resolve()
    study, names = open_study(folder), []
    try:
        names = study.list_steps(lambda: run_study(study))
        if unknown := [name for name in options.again if name not in names]:
            raise StepError(f"no step {', '.join(unknown)}; the steps are: {', '.join(names)}")
        with hold(folder, made_by, afresh=options.afresh):
            for name in options.again:
                study.step_file(name).unlink(missing_ok=True)
            put_back(study, kernels)
            return run_study(study)
    except KeyboardInterrupt:
        end_children()
        left = next((f" at step {name}" for name in names if not study.step_file(name).exists()), "")
        line = "the same command without --afresh" if options.afresh else "the same command"
        print(f"\nstudy: interrupted; {line} goes on{left}", file=sys.stderr)
        sys.exit(130)
    except (StepError, subprocess.CalledProcessError, OSError) as error:
        sys.exit(f"study: {error}")


def write_results(results: dict[str, Any], folder: Path) -> None:
    """Write a study's results into a folder."""
    (folder / RESULTS).write_text(json.dumps(results, indent=1) + "\n")


def write_page(here: Path) -> None:
    """Write the page of the results in a study's folder, by the study's own module ``page``."""
    # Not at the top of this file: it needs jinja2, and --help runs outside the ROCm root.
    page = importlib.import_module("page")
    for name, content in page.make_files(json.loads((here / RESULTS).read_text())).items():
        (here / name).write_text(content)
