"""llama.cpp, from a profile to verdicts on edits: `make study` runs this file in the ROCm root.

It builds llama.cpp from source, takes kernels out of it, edits them, and measures every step. Each step's
result is kept in the study's folder, so that a run that was interrupted goes on, and nothing is done twice.
At the end it writes results.json, the pictures and the page beside this file.
"""

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
from typing import Any

from building import build, fetch, make_model
from kernels import KERNELS
from measuring import build_again, capture_layers, describe, extract, judge, profile, test_operator
from page import write_page
from running import StepError, Study

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results.json"


def describe_machine() -> dict[str, Any]:
    """Say what the study runs on."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    root = json.loads(Path("/etc/kerncap-root.json").read_text())
    commit = subprocess.run(
        ["git", "-C", str(HERE), "rev-parse", "HEAD"], capture_output=True, text=True, check=False
    )
    packages = ("libamdhip64-dev", "librocblas-dev", "clang-21", "cmake")
    return {
        "processor": models[0] if models else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1),
        "rocm": root["rocm"],
        "packages": {name: root["packages"][name] for name in packages if name in root["packages"]},
        "commit": commit.stdout.strip(),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }


def run_study(study: Study, keys: list[str], *, with_tests: bool) -> dict[str, Any]:
    """Do all steps, and return their results."""
    found: dict[str, Any] = {
        "machine": study.step("machine", describe_machine),
        "fetch": study.step("fetch", partial(fetch, study)),
        "build": study.step("build", partial(build, study)),
        "model": study.step("model", partial(make_model, study)),
        "profiles": {},
        "kernels": {},
        "tests": {},
        "remarks": [],  # for people to add: what they did beside the script
    }
    chosen = [kernel for kernel in KERNELS if kernel.key in keys]
    for kind in dict.fromkeys(kernel.program for kernel in chosen):
        found["profiles"][kind] = study.step(f"profile-{kind}", partial(profile, study, kind))
    for kernel in chosen:
        found["kernels"][kernel.key] = {
            "name": kernel.key,
            "file": kernel.file,
            "program": kernel.program,
            "operator": kernel.operator,
            "right": describe(kernel.right, 1),
            "wrong": describe(kernel.wrong),
        }
    for name, work in (("extract", extract), ("loop", judge)):
        for kernel in chosen:
            do = partial(work, study, kernel)
            found["kernels"][kernel.key][name] = study.step(f"{name}-{kernel.key}", do)
    found["layers"] = study.step("layers", partial(capture_layers, study, KERNELS[0]))
    for kernel in chosen:  # these change llama.cpp's own source for a while
        do = partial(build_again, study, kernel)
        found["kernels"][kernel.key]["build"] = study.step(f"build-{kernel.key}", do)
    for operator in dict.fromkeys(kernel.operator for kernel in chosen if with_tests):
        found["tests"][operator] = study.step(f"test-{operator}", partial(test_operator, study, operator))
    return found


def main() -> None:
    """Run the study, or only write its page again."""
    parser = argparse.ArgumentParser(prog="make study", description=(__doc__ or "").partition("\n")[0])
    cache = Path(os.environ.get("KERNCAP_ROOT_CACHE", Path.home() / ".cache/kerncap-stages"))
    parser.add_argument(
        "--folder",
        type=Path,
        default=cache / "case-studies/llama",
        help="where it builds and keeps results (default: in the cache of kc-root)",
    )
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="of the builds")
    names = [kernel.key for kernel in KERNELS]
    parser.add_argument("--kernel", action="append", choices=names, help="only this one; repeatable")
    parser.add_argument(
        "--again", action="append", default=[], metavar="STEP", help="do a step again, as build or loop-rope"
    )
    parser.add_argument(
        "--tests", action="store_true", help="also time llama.cpp's own tests of each kernel's operator"
    )
    parser.add_argument("--page", action="store_true", help="only write the page of results.json again")
    options = parser.parse_args()
    if not options.page:
        study = Study(options.folder.resolve(), options.jobs)
        for name in options.again:
            (study.folder / "steps" / f"{name}.json").unlink(missing_ok=True)
        try:
            results = run_study(study, options.kernel or names, with_tests=options.tests)
        except StepError as error:
            sys.exit(f"study: {error}")
        except subprocess.CalledProcessError as error:
            sys.exit(f"study: {error}")
        if options.kernel:
            print(json.dumps(results, indent=1))  # the page shows all kernels
            return
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    write_page(json.loads(RESULTS.read_text()), HERE)


if __name__ == "__main__":
    main()
