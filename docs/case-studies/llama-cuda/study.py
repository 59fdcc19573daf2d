"""llama.cpp's CUDA back end, from a profile to verdicts on edits, on an NVIDIA GPU.

`python3 docs/case-studies/llama-cuda/study.py` runs where CMake, Ninja, nvcc and this package are. It does
what `make study` does for HIP, and writes results.json, the pictures and the page beside this file.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

HERE = Path(__file__).resolve().parent
sys.path[1:1] = [str(HERE.parent / "llama"), str(HERE.parent / "common")]

from building import Llama, fetch, make_model  # noqa: E402 - after the path of what studies share
from command import describe_cuda_machine, measure_kernels, run_command  # noqa: E402
from cuda_kernels import KERNELS  # noqa: E402
from running import run  # noqa: E402

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from edits import Kernel

OPTIONS = (
    "-DCMAKE_BUILD_TYPE=Release",
    "-DGGML_CUDA=ON",
    "-DCMAKE_CUDA_ARCHITECTURES=90",
    "-DLLAMA_CURL=OFF",
    "-DLLAMA_BUILD_SERVER=OFF",
    "-DLLAMA_BUILD_EXAMPLES=OFF",
    "-DLLAMA_BUILD_TESTS=OFF",
    "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON",
)


class LlamaOnCuda(Llama):
    """llama.cpp with its CUDA back end."""

    targets = ("llama-cli",)

    def compiler_variables(self) -> dict[str, str]:
        """Return nothing: CMake finds nvcc."""
        return {}

    def compiler_version(self) -> str:
        """Return the line in which nvcc says its version."""
        return run("nvcc", "--version", log=self.log("build")).out.splitlines()[-1]


def build(study: LlamaOnCuda) -> dict[str, Any]:
    """Configure and build llama.cpp as its documentation says."""
    return study.configure_and_build(study.source, OPTIONS)


def run_study(study: LlamaOnCuda, kernels: Sequence[Kernel], _options: argparse.Namespace) -> dict[str, Any]:
    """Do all steps, and return their results."""
    return {
        "machine": study.step("machine", describe_cuda_machine),
        "fetch": study.step("fetch", partial(fetch, study)),
        "build": study.step("build", partial(build, study)),
        "model": study.step("model", partial(make_model, study)),
        **measure_kernels(study, kernels),
        "remarks": [],  # for people to add: what they did beside the script
    }


if __name__ == "__main__":
    run_command(
        "python3 docs/case-studies/llama-cuda/study.py", HERE, LlamaOnCuda, KERNELS, run_study, __doc__ or ""
    )
