"""The command line of a study, and the steps that all studies have."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from measuring import extract, measure_loop, profile
from running import StepError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from edits import Kernel
    from running import Study

PACKAGES = ("libamdhip64-dev", "librocblas-dev", "libhipcub-dev", "librocprim-dev", "clang-21", "cmake")


def describe_machine() -> dict[str, Any]:
    """Say what the study runs on."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    here = Path(__file__).resolve().parent
    commit = subprocess.run(
        ["git", "-C", str(here), "rev-parse", "HEAD"], capture_output=True, text=True, check=False
    )
    return {
        "processor": models[0] if models else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1),
        **_describe_runtime(),
        "commit": commit.stdout.strip(),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }


def _describe_runtime() -> dict[str, Any]:
    """Say which ROCm root this is, or else which NVIDIA GPU and toolkit."""
    file = Path("/etc/kerncap-root.json")
    if file.exists():
        root = json.loads(file.read_text())
        packages = {name: root["packages"][name] for name in PACKAGES if name in root["packages"]}
        return {"rocm": root["rocm"], "packages": packages}
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


def run_command(
    here: Path,
    kind: type[Study],
    kernels: Sequence[Kernel],
    run_study: Callable[[Any, Sequence[Kernel], argparse.Namespace], dict[str, Any]],
    write_page: Callable[[dict[str, Any], Path], None],
    text: str,
) -> None:
    """Run a study, or only write its page again. ``here`` is the folder of its results and its page."""
    parser = argparse.ArgumentParser(prog="make study", description=text.partition("\n")[0])
    cache = Path(os.environ.get("KERNCAP_ROOT_CACHE", Path.home() / ".cache/kerncap-stages"))
    parser.add_argument(
        "--folder",
        type=Path,
        default=cache / "case-studies" / here.name,
        help="where it builds and keeps results (default: in the cache of kc-root)",
    )
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="of the builds")
    parser.add_argument(
        "--build-limit",
        type=int,
        default=3600,
        metavar="S",
        help="stop a build after an edit (default: 3600 s)",
    )
    names = [kernel.key for kernel in kernels]
    parser.add_argument("--kernel", action="append", choices=names, help="only this one; repeatable")
    parser.add_argument(
        "--again", action="append", default=[], metavar="STEP", help="do a step again, as build or loop-rope"
    )
    parser.add_argument(
        "--tests", action="store_true", help="also time the program's own tests of each kernel, if it has any"
    )
    parser.add_argument("--page", action="store_true", help="only write the page of results.json again")
    options = parser.parse_args()
    file = here / "results.json"
    if not options.page:
        study = kind(options.folder.resolve(), options.jobs, options.build_limit)
        for name in options.again:
            (study.folder / "steps" / f"{name}.json").unlink(missing_ok=True)
        chosen = [kernel for kernel in kernels if kernel.key in (options.kernel or names)]
        try:
            results = run_study(study, chosen, options)
        except (StepError, subprocess.CalledProcessError) as error:
            sys.exit(f"study: {error}")
        if options.kernel:
            print(json.dumps(results, indent=1))  # the page shows all kernels
            return
        file.write_text(json.dumps(results, indent=1) + "\n")
    write_page(json.loads(file.read_text()), here)
