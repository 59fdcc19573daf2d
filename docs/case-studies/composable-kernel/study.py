"""Composable Kernel, flash attention and hipCUB, from a program to verdicts: `make study-ck` runs this file.

It fetches the libraries' headers, builds programs that call them, takes a kernel out of each, edits it, and
measures every step. It works as the study on llama.cpp does.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

HERE = Path(__file__).resolve().parent
sys.path.insert(1, str(HERE.parent / "common"))

from building import ComposableKernel, build, fetch  # noqa: E402 - after the path of what studies share
from command import describe_machine, measure_kernels, run_command  # noqa: E402
from kernels import KERNELS  # noqa: E402

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from edits import Kernel


def run_study(study: ComposableKernel, kernels: Sequence[Kernel], _: argparse.Namespace) -> dict[str, Any]:
    """Do all steps, and return their results."""
    return {
        "machine": study.step("machine", describe_machine),
        "fetch": study.step("fetch", partial(fetch, study)),
        "build": study.step("build", partial(build, study)),
        **measure_kernels(study, kernels),
    }


if __name__ == "__main__":
    run_command("make study-ck", HERE, ComposableKernel, KERNELS, run_study, __doc__ or "")
