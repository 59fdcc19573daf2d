"""Writes the page from results.json and page.md.j2. It names what is missing, failed, or not there yet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pages

HERE = Path(__file__).resolve().parent
VERDICTS = {True: "PASS", False: "FAIL", None: "none"}
MADE_BY = {
    "reductions": "PyTorch's header, our unit",
    "attention": "PyTorch",
    "training": "PyTorch",
    "compiled": "torch.compile, by Triton",
    "cupy": "CuPy, by NVRTC",
    "jax": "JAX, by XLA",
    "flashinfer": "FlashInfer, by nvcc",
}


def make_files(results: dict[str, Any]) -> dict[str, str]:
    """Return the text of each file of the page by its name."""
    kernels = results["kernels"]
    done = {key: row for key, row in kernels.items() if "failed" not in row and "missing" not in row}
    steps = [results["machine"], results["packages"], results["build"]]
    steps += [*results["profiles"].values(), *kernels.values()]
    loads = [each["step"]["load"] for each in steps]
    text = pages.load_template(HERE).render(
        r=results,
        edited={key: row for key, row in done.items() if "right" in row.get("verdicts", {})},
        coded={key: row for key, row in done.items() if "silent" in row.get("verdicts", {})},
        training=done.get("training"),
        reductions=done.get("reduce_kernel"),
        failed=find_errors(results),
        missing={key: row["missing"] for key, row in kernels.items() if "missing" in row},
        verdict=VERDICTS,
        made_by=MADE_BY,
        load={"least": min(loads), "most": max(loads)},
        total_s=sum(each["step"]["wall_s"] for each in steps),
    )
    return {"README.md": text}


def find_errors(results: dict[str, Any]) -> dict[str, str]:
    """Return the error of each step that failed."""
    steps = {"build": results["build"]}
    steps |= {f"profile of {name}": found for name, found in results["profiles"].items()}
    steps |= results["kernels"]
    return {name: found["failed"] for name, found in steps.items() if "failed" in found}
