"""The GPU test programs: which there are, for which targets, and how they are built (cached by content).

python3 tests/helpers/programs.py vector_add --target gfx942 --opt O0     builds it and prints its path
python3 tests/helpers/programs.py --list
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

SOURCES = Path(__file__).parents[1] / "programs"
TARGETS = ("gfx90a", "gfx942")
OPTS = ("O3", "O0")
COMMON_FLAGS = ("-std=c++20", "-Wall", "-Wextra", "-Werror", f"-I{SOURCES / 'include'}")
# hipcc passes options of the link that does not happen.
NVCC_FLAGS = ("-std=c++20", "-lineinfo", f"-I{SOURCES / 'include'}")
DEVICE_ONLY_FLAGS = ("--cuda-device-only", "--no-gpu-bundle-output", "-Wno-unused-command-line-argument")
# Programs are built for all targets and run with one GPU unless it is said here.
ONLY_FOR = {
    "mfma_bf16_pairs": ("gfx90a",),
    "mfma_fp8": ("gfx942",),
    "mfma_i8_gfx90a": ("gfx90a",),
    "mfma_i8_gfx942": ("gfx942",),
    "mfma_sparse": ("gfx942",),
    "mfma_xf32": ("gfx942",),
}
GPUS = {"peer_copies": 2}
# HIP programs that use ROCr or hipRTC themselves, too.
LIBRARIES = {"bad_code_objects": ("-lhsa-runtime64",), "run_time_compiled": ("-lhiprtc",)}
# Programs that load the runtime themselves.
WITHOUT_LIBRARIES = ("late_runtime",)


@dataclass(frozen=True)
class Program:
    """One source file that checks itself: exit code 0, or 1 and what differed."""

    source: Path

    @property
    def name(self) -> str:
        return self.source.stem

    @property
    def targets(self) -> tuple[str, ...]:
        return ONLY_FOR.get(self.name, TARGETS)

    @property
    def gpus(self) -> int:
        return GPUS.get(self.name, 1)


@dataclass(frozen=True)
class Build:
    """One way to compile a program. HSA programs hold no device code: target and opt are empty for them."""

    program: Program
    target: str = ""
    opt: str = ""
    rocm: str = ""  # empty: the root that we run in
    defines: tuple[str, ...] = ()
    device_only: bool = False  # a code object instead of a program: a variant of its kernels
    flags: tuple[str, ...] = ()

    def command(self, output: Path) -> list[str]:
        source = str(self.program.source)
        if self.target.startswith("sm_"):
            form = ("-cubin",) if self.device_only else ()
            words = (*form, *NVCC_FLAGS, *(f"-D{define}" for define in self.defines), *self.flags)
            return [
                "nvcc",
                f"-arch={self.target}",
                f"-{self.opt}",
                *words,
                "-x",
                "cu",
                source,
                "-o",
                str(output),
            ]
        if self.program.source.suffix == ".hip":
            # A code object alone, for programs that load it themselves.
            device_only = [
                "--offload-device-only",
                "--no-gpu-bundle-output",
                "-Wno-unused-command-line-argument",
            ]
            return [
                "hipcc",
                f"--offload-arch={self.target}",
                f"-{self.opt}",
                *(device_only if self.program.name.endswith("_kernels") else []),
                *COMMON_FLAGS,
                *(f"-D{define}" for define in self.defines),
                *(DEVICE_ONLY_FLAGS if self.device_only else ()),
                *self.flags,
                source,
                "-o",
                str(output),
                *LIBRARIES.get(self.program.name, ()),
            ]
        if self.program.name.endswith("_tool"):  # a library that ROCr loads by HSA_TOOLS_LIB
            headers = ["-DAMD_INTERNAL_BUILD", "-isystem", "/usr/include/hsa"]
            return ["g++", "-O1", "-shared", "-fPIC", *COMMON_FLAGS, *headers, source, "-o", str(output)]
        libraries = () if self.program.name in WITHOUT_LIBRARIES else ("-lhsa-runtime64",)
        return ["g++", "-O1", *COMMON_FLAGS, source, "-o", str(output), *libraries, "-pthread"]


def programs(kind: str) -> list[Program]:
    """All programs of a kind (``hip`` or ``hsa``), by name."""
    return [Program(path) for path in sorted((SOURCES / kind).iterdir())]


def program_named(name: str) -> Program:
    """The test program of this name, in whichever folder it is."""
    return Program(next(iter(SOURCES.glob(f"*/{name}.*"))))


def in_rocm(rocm: str) -> list[str]:
    """Words before a command that has to run in a root of another ROCm version; none for our own."""
    return [sys.executable, "-m", "kerncap_stages.rocm_root", "run", "--rocm", rocm, "--"] if rocm else []


@cache
def compiler_version(rocm: str, target: str = "") -> str:
    versions = "hipcc --version; g++ --version; dpkg-query -W 'libhsa-runtime*' 'libamdhip64*'"
    if target.startswith("sm_"):
        versions = "nvcc --version"
    command = [*in_rocm(rocm), "sh", "-c", versions]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def cache_folder() -> Path:
    base = os.environ.get("KERNCAP_ROOT_CACHE") or tempfile.gettempdir()
    return Path(base) / "test-programs"


def with_headers(source: Path) -> list[Path]:
    """The source and all of our own headers that it includes, directly or not."""
    found = [source]
    for path in found:  # grows while we walk it
        for name in re.findall(r'^#include "(.*)"', path.read_text(), re.MULTILINE):
            beside = path.parent / name
            header = beside if beside.exists() else SOURCES / "include" / name
            if header not in found:
                found.append(header)
    return found


def command_for_key(build: Build) -> list[str]:
    """The command without the place of this checkout, so that all checkouts share what one has compiled.

    Debug information holds paths of sources: such programs are compiled in each checkout.
    """
    words = build.command(Path("out"))
    if any(word.startswith(("-g", "-lineinfo")) for word in words):
        return words
    return [word.replace(str(SOURCES), "SOURCES") for word in words]


def compile_once(build: Build) -> Path:
    """Path of the program, compiled now unless the same sources were compiled the same way before."""
    sources = [path.read_text() for path in with_headers(build.program.source)]
    inputs = [compiler_version(build.rocm, build.target), *sources, *command_for_key(build)]
    key = hashlib.sha256(json.dumps(inputs).encode()).hexdigest()[:16]
    output = cache_folder() / f"{build.program.name}-{key}"
    if output.exists():
        return output
    output.parent.mkdir(parents=True, exist_ok=True)
    with output.with_name(f".{output.name}.lock").open("w") as lock:
        # Several processes of one test run want the same program at the same time.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if output.exists():
            return output
        fresh = output.with_name(f".{output.name}-{os.getpid()}")
        command = build.command(fresh)
        done = subprocess.run([*in_rocm(build.rocm), *command], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
        fresh.rename(output)
    return output


def compile_all(builds: list[Build]) -> dict[Build, Path | Exception]:
    """Compile on all cores; a program that does not compile fails only its own tests."""

    def attempt(build: Build) -> Path | Exception:
        try:
            return compile_once(build)
        except (RuntimeError, OSError) as error:
            return error

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return dict(zip(builds, pool.map(attempt, builds), strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="programs to build; their paths are printed")
    parser.add_argument("--target", default="gfx942", choices=TARGETS)
    parser.add_argument("--opt", default="O3", choices=OPTS)
    parser.add_argument("--list", action="store_true", help="names of all programs")
    options = parser.parse_args()
    known = {program.name: program for kind in ("hip", "hsa") for program in programs(kind)}
    if options.list:
        print("\n".join(known))
    for result in compile_all(
        [Build(known[name], options.target, options.opt) for name in options.names]
    ).values():
        if isinstance(result, Exception):
            sys.exit(str(result))
        print(result)


if __name__ == "__main__":
    main()
