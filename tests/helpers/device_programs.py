"""How the programs of tests/device are built; as a program, builds all that the tests on an NVIDIA GPU want.

Tests build what is not there yet, one by one. tests/device/run.sh starts this beside them, on all cores.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from nvidia_gpu import architecture
from programs import SOURCES, Build, Program, compile_all

TESTS = Path(__file__).parents[1]
DEVICE = TESTS / "device"


def device_build(name: str) -> Build:
    """A program of tests/device/programs by name, or name.FORM of its variants."""
    stem, _, form = name.partition(".")
    source = DEVICE / ("variants" if form else "programs") / f"{stem}.cu"
    # What a program needs besides stands in its own first lines.
    needs = re.search(r"^// nvcc: (.*)", source.read_text(), re.MULTILINE)
    flags = (f"-{form}",) if form else tuple(needs[1].split() if needs else ())
    return Build(Program(source), architecture(), "O2", flags=flags)


def link_device_code(name: str, to: Path, *flags: str) -> None:
    """Make a cubin of tests/device/linked/NAME.cu that launches kernels itself, by CUDA's device runtime."""
    words = ["nvcc", f"-arch={architecture()}", "-rdc=true"]
    middle = to.with_suffix(".o")
    for step in (
        [*words, *flags, "-c", DEVICE / f"linked/{name}.cu", "-o", middle],
        [*words, "-dlink", "-cubin", middle, "-lcudadevrt", "-o", to],
    ):
        subprocess.run(step, check=True, timeout=120)


def main() -> None:
    conformance = "".join(path.read_text() for path in (TESTS / "conformance").glob("*.py"))
    sources = [path for path in sorted(SOURCES.glob("*/*.hip")) if "main(" in path.read_text()]
    shared = [path for path in sources if f'"{path.stem}"' in conformance]
    builds = [device_build(path.stem) for path in sorted((DEVICE / "programs").glob("*.cu"))]
    builds += [device_build(f"{path.stem}.cubin") for path in sorted((DEVICE / "variants").glob("*.cu"))]
    builds += [Build(Program(path), architecture(), "O3") for path in shared]
    # What does not compile fails the tests that want it, with the compiler's words.
    compile_all(builds)


if __name__ == "__main__":
    main()
