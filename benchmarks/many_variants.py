"""Makes many variants of the demo's kernel: right ones, wrong ones, some that crash, hang or leak.

usage: python benchmarks/many_variants.py FOLDER COUNT

Each kind is compiled once. A variant's number is then written over a constant in its instructions, so that
all code objects are distinct: nothing is judged twice.
"""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

DEMO = Path(__file__).resolve().parents[1] / "tests/programs/demo"
_STAMP = 0x5EED5EED

_SOURCE = """
#include <hip/hip_runtime.h>
#include "matvec.hpp"
namespace demo {
__device__ float kept[256];
__device__ int launched;
__global__ void add_rows(const float* matrix, const float* vector, float* result, Shape shape) {
  unsigned stamp;
  asm volatile("s_mov_b32 %%0, 0x%(stamp)x" : "=s"(stamp));
  const int row = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (row >= shape.rows) return;
  const float* line = matrix + row * shape.columns;
%(body)s
}
}  // namespace demo
"""

_LOOP = "for (int column = 0; column < shape.columns; ++column)"
_SUM = f"  float sum = result[row];\n  {_LOOP} sum += line[column] * vector[column];\n"
RIGHT = {
    "memory": f"  {_LOOP} result[row] += line[column] * vector[column];",
    "register": f"{_SUM}  result[row] = sum;",
    "pointers": "  float sum = result[row];\n"
    "  for (const float *at = line, *end = line + shape.columns; at != end; ++at, ++vector)"
    " sum += *at * *vector;\n  result[row] = sum;",
    "unroll-2": _SUM.replace("for", "\n#pragma unroll 2\n  for") + "  result[row] = sum;",
    "unroll-4": _SUM.replace("for", "\n#pragma unroll 4\n  for") + "  result[row] = sum;",
    "unroll-8": _SUM.replace("for", "\n#pragma unroll 8\n  for") + "  result[row] = sum;",
    "no-unroll": _SUM.replace("for", "\n#pragma unroll 1\n  for") + "  result[row] = sum;",
    "through-lds": "  __shared__ float held[64];\n  held[threadIdx.x] = result[row];\n"
    f"  {_LOOP} held[threadIdx.x] += line[column] * vector[column];\n  result[row] = held[threadIdx.x];",
}
WRONG = {
    "one-row": f"{_SUM}  if (row != 77) result[row] = sum;",
    "nothing": f"{_SUM}  if (sum == 12345.0f) result[row] = sum;",
    "last-column": _SUM.replace("< shape.columns", "+ 1 < shape.columns") + "  result[row] = sum;",
    "other-order": _SUM.replace(
        "column = 0; column < shape.columns; ++column", "column = shape.columns; column-- > 0;"
    )
    + "  result[row] = sum;",
    "keeps-results": f"  if (launched == 0) {{\n{_SUM}  kept[row] = sum;\n  }}\n  result[row] = kept[row];\n"
    "  if (row == shape.rows - 1) launched = 1;",
    "overwrites": _SUM.replace("result[row];", "0.0f;") + "  result[row] = sum;",
}
CRASH = {
    "null": f"{_SUM}  *reinterpret_cast<volatile float*>(row == 5 ? 8 : 0x10) = sum;",
    "trap": f"{_SUM}  result[row] = sum;\n  if (row == 9) __builtin_trap();",
}
HANG = {"for-ever": f"{_SUM}  volatile int go = 1;\n  while (go) {{}}\n  result[row] = sum;"}
LEAK = {
    "malloc": f"{_SUM}  result[row] = sum;\n"
    "  if (auto* lost = static_cast<float*>(malloc(4096))) lost[0] = sum;",
}
# Of a thousand.
SHARES = ((RIGHT, 667), (WRONG, 300), (CRASH, 20), (LEAK, 8), (HANG, 5))


def compile_kind(folder: Path, name: str, body: str) -> bytes:
    """Compile one kind."""
    source, output = folder / f"{name}.hip", folder / f"{name}.base"
    source.write_text(_SOURCE % {"stamp": _STAMP, "body": body})
    flags = (
        "-O3",
        f"-I{DEMO / 'include'}",
        "--offload-arch=gfx90a",
        "--offload-device-only",
        "--no-gpu-bundle-output",
    )
    subprocess.run(["hipcc", *flags, "-w", "-o", output, source], check=True)
    code = output.read_bytes()
    if code.count(struct.pack("<I", _STAMP)) != 1:
        raise ValueError(f"{name}: the stamp is not there once")
    return code


def make_variants(folder: Path, count: int) -> list[Path]:
    """Write so many variants, in an order in which the kinds are mixed."""
    work = folder / "sources"
    work.mkdir(parents=True)
    made = []
    for kinds, share in SHARES:
        wanted = max(1, round(count * share / 1000))
        codes = [(name, compile_kind(work, name, body)) for name, body in list(kinds.items())[:wanted]]
        for number in range(wanted):
            name, code = codes[number % len(codes)]
            stamped = code.replace(struct.pack("<I", _STAMP), struct.pack("<I", len(made)))
            # Spread over the whole, whatever their share.
            path = folder / f"{number * 1000 // wanted:04}-{name}-{number}.hsaco"
            path.write_bytes(stamped)
            made.append(path)
    return sorted(made)


if __name__ == "__main__":
    print(len(make_variants(Path(sys.argv[1]), int(sys.argv[2]))))
