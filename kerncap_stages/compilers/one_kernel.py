"""Compiles one kernel of a HIP unit that has many.

The front end makes LLVM's bitcode of the whole unit, as for any compilation. Then the other kernels are taken
out, and LLVM optimises what is left: in a unit with hundreds of instantiations that is a small part of the
time.
Projects do the same: templates/hip/compile_kernel.sh.j2.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.code.kernel_facts import strip_unit
from kerncap_stages.compilers.dependencies import find_first_error, run_compiler
from kerncap_stages.errors import DeviceError
from kerncap_stages.machine.temporary import TemporaryFolder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kerncap_stages.compilers.installed import Compiler
    from kerncap_stages.compilers.kernel_unit import KernelUnit

TOOLS = ("llvm-dis", "llvm-extract")
TO_LIST = ("llvm-dis", "--materialize-metadata")  # functions without their instructions
TO_BITCODE = ("-c", "-emit-llvm", "-Xclang", "-disable-llvm-passes")
# What clang's driver gives the optimiser for HIP, and not for bitcode.
_AS_FOR_HIP = ("-ffp-contract=fast-honor-pragmas", "-mllvm", "-amdgpu-internalize-symbols")
TO_CODE = (
    *("--target=amdgcn-amd-amdhsa", "-nogpulib", "-Wno-unused-command-line-argument"),
    *_AS_FOR_HIP,
)
_KERNEL = re.compile(r'^define [^@]*\bamdgpu_kernel\b[^@]*@(?:"([^"]+)"|([^(\s]+))\(', re.MULTILINE)
WORTH_OTHERS = 3  # fewer other kernels take no longer than the tools do


def compile_one_kernel(compiler: Compiler, unit: KernelUnit, extra: Sequence[str] = ()) -> bytes | None:
    """Compile a unit without its other kernels; None if it is not worth it.

    extra: flags for the front end only.

    Raises DeviceError if LLVM's tools are not beside the compiler, or if one of them fails.
    """
    beside = Path(compiler.path).resolve().parent
    with TemporaryFolder("kernel") as name:
        folder = Path(name)
        whole, kernel, code = (folder / part for part in ("unit.bc", "kernel.bc", "code"))
        words = ("-w", *extra, "--no-gpu-bundle-output", *TO_BITCODE, "-o", str(whole), str(unit.path))
        _run(compiler.make_command(unit.target, unit.flags, *words), unit.directory)
        listing = folder / "unit.ll"
        tool, *options = TO_LIST
        _run([str(beside / tool), *options, str(whole), "-o", str(listing)], unit.directory)
        kernels = list_kernels(listing.read_text(encoding="utf-8", errors="surrogateescape"))
        others = [each for each in kernels if strip_unit(each) != unit.symbol]
        if len(others) < WORTH_OTHERS or len(others) != len(kernels) - 1:
            return None
        response = folder / "others.rsp"
        response.write_text("\n".join(f"--func={each}" for each in others), errors="surrogateescape")
        _run(
            [str(beside / "llvm-extract"), "--delete", f"@{response}", str(whole), "-o", str(kernel)],
            unit.directory,
        )
        made = (*compiler.complete(unit.flags), "-w", "-x", "ir", str(kernel), "-o", str(code))
        _run([compiler.path, *TO_CODE, f"-mcpu={unit.target}", *made], unit.directory)
        return code.read_bytes()


def list_kernels(listing: str) -> list[str]:
    """List the kernels in LLVM's assembly, by their symbols."""
    return [quoted or plain for quoted, plain in _KERNEL.findall(listing)]


def _run(words: Sequence[str], directory: Path) -> None:
    done = run_compiler(list(words), directory)
    if done.returncode != 0:
        raise DeviceError(f"{Path(words[0]).name}: {find_first_error(done.stderr)}")
