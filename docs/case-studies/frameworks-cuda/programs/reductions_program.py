"""Sums rows by an operator of reductions.cu, and compares with NumPy.

The first argument is the folder of the build. With --build behind it, the operators are only built.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy
import torch

HERE = Path(__file__).resolve().parent


def build(folder: Path) -> None:
    """Compile the operators as PyTorch's extensions are, by ninja."""
    from torch.utils import cpp_extension

    folder.mkdir(parents=True, exist_ok=True)
    cpp_extension.load(
        name="reductions",
        sources=[str(HERE / "reductions.cpp"), str(HERE / "reductions.cu")],
        extra_cuda_cflags=["--expt-extended-lambda", "-lineinfo"],
        extra_include_paths=find_headers(Path(cpp_extension.CUDA_HOME or "/usr/local/cuda")),
        build_directory=str(folder),
        with_cuda=True,
        is_python_module=False,
        verbose=True,
    )


def find_headers(toolkit: Path) -> list[str]:
    """Return where cuBLAS's headers are, which PyTorch's include, if the toolkit does not have them."""
    if (toolkit / "include/cublas_v2.h").exists():
        return []
    folders = [Path(entry) / "nvidia/cu13/include" for entry in sys.path]
    return [str(folder) for folder in folders if (folder / "cublas_v2.h").exists()][:1]


def main() -> None:
    """Sum rows three times, and compare the last results."""
    folder = Path(sys.argv[1])
    if "--build" in sys.argv[2:]:
        build(folder)
        return
    torch.ops.load_library(str(folder / "reductions.so"))
    torch.manual_seed(7)
    for _ in range(3):
        rows = torch.randn(64, 4096, device="cuda")
        found = torch.ops.kerncap_reductions.sum(rows)
    torch.cuda.synchronize()
    true = rows.cpu().numpy().astype(numpy.float64).sum(axis=1, keepdims=True)
    right = numpy.allclose(found.cpu().numpy(), true, atol=1e-2, rtol=1e-4)
    print("right" if right else "wrong", flush=True)
    sys.exit(not right)


if __name__ == "__main__":
    main()
