"""llama.cpp, from a profile to verdicts on edits: `make study` runs this file in the ROCm root.

It builds llama.cpp from source, takes kernels out of it, edits them, and measures every step. Each step's
result is kept in the study's folder, so that a run that was interrupted goes on, and nothing is done twice.
At the end it writes results.json, the pictures and the page beside this file.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

HERE = Path(__file__).resolve().parent
sys.path.insert(1, str(HERE.parent / "common"))

from building import Llama, build, fetch, make_model  # noqa: E402 - after the path of what studies share
from command import describe_machine, measure_kernels, run_command  # noqa: E402
from kernels import KERNELS  # noqa: E402
from more import capture_layers, test_operator  # noqa: E402

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from edits import Kernel


def run_study(study: Llama, kernels: Sequence[Kernel], options: argparse.Namespace) -> dict[str, Any]:
    """Do all steps, and return their results."""
    operators = dict.fromkeys(kernel.operator for kernel in kernels if options.tests)
    return {
        "machine": study.step("machine", describe_machine),
        "fetch": study.step("fetch", partial(fetch, study)),
        "build": study.step("build", partial(build, study)),
        "model": study.step("model", partial(make_model, study)),
        **measure_kernels(study, kernels),
        "layers": study.step("layers", partial(capture_layers, study, KERNELS[0])),
        "tests": {
            name: study.step(f"test-{name}", partial(test_operator, study, name)) for name in operators
        },
        "remarks": [],  # for people to add: what they did beside the script
    }


if __name__ == "__main__":
    run_command("make study", HERE, Llama, KERNELS, run_study, __doc__ or "", has_tests=True)
