"""Fetches llama.cpp, builds it for gfx90a, and makes the model."""

from __future__ import annotations

import hashlib
import shutil
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernels import CUDA
from running import StepError, Study, run

if TYPE_CHECKING:
    from collections.abc import Mapping

# This source archive holds all of llama.cpp.
SDIST = "llama_cpp_python-0.3.9.tar.gz"
SHA256 = "a3a985f558385e2f5de5b663f4e9b0817506d6af98122450142cd98e79216370"
INSIDE = "llama_cpp_python-0.3.9/vendor/llama.cpp/"
GGUF = "gguf==0.19.0"
TARGETS = ("llama-cli", "test-backend-ops")
OPTIONS = (
    "-DCMAKE_BUILD_TYPE=Release",
    "-DGGML_HIP=ON",
    "-DAMDGPU_TARGETS=gfx90a",
    "-DLLAMA_CURL=OFF",
    "-DLLAMA_BUILD_SERVER=OFF",
    "-DLLAMA_BUILD_EXAMPLES=OFF",
    "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON",
)


# Of this checkout's own build; none of them is for another project's.
NOT_FOR_BUILDS = (
    "LD_PRELOAD",
    "KERNCAP_SOFTGPU",
    "CCACHE_BASEDIR",
    "CCACHE_NOHASHDIR",
    "CCACHE_COMPILERCHECK",
)


def build_variables(*, cached: bool) -> Mapping[str, str | None]:
    """Return what compilers get beside the environment; none removes a variable."""
    return {**dict.fromkeys(NOT_FOR_BUILDS), "CCACHE_DISABLE": None if cached else "1"}


def fetch(study: Study) -> dict[str, Any]:
    """Fetch the source by pip, compare its digest, and unpack llama.cpp."""
    archive = study.folder / SDIST
    log = study.log("fetch")
    if not archive.exists():
        name, version = SDIST.removesuffix(".tar.gz").rsplit("-", 1)
        requirement = f"{name}=={version}"
        where = ("--no-deps", "--no-binary", name.replace("_", "-"), "-d", study.folder)
        run("pip", "download", *where, requirement, log=log)
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    if digest != SHA256:
        raise StepError(f"{archive} has the SHA-256 {digest}, not {SHA256}")
    if not study.source.exists():
        partial = study.folder / "source.partial"
        shutil.rmtree(partial, ignore_errors=True)
        with tarfile.open(archive) as opened:
            for member in opened:
                if member.name.startswith(INSIDE):
                    member.name = member.name.removeprefix(INSIDE)
                    opened.extract(member, partial, filter="data")
        partial.rename(study.source)
    if not study.original.exists():
        shutil.copytree(study.source / CUDA, study.original)
    return {"archive": SDIST, "sha256": SHA256}


def build(study: Study) -> dict[str, Any]:
    """Configure and build llama.cpp as its documentation says. ccache keeps what was compiled."""
    log = study.log("build")
    hipcc = run("hipconfig", "-l", log=log).out.strip()
    compiler = f"{hipcc}/clang++"
    variables = {**build_variables(cached=True), "HIPCXX": compiler}
    if not (study.build / "build.ninja").exists():
        where = ("-S", study.source, "-B", study.build, "-G", "Ninja")
        run("cmake", *where, *OPTIONS, log=log, variables=variables)
    run(*build_command(study), log=log, variables=variables)
    version = run(compiler, "--version", log=log).out.splitlines()[0]
    seconds = time_steps(read_ninja_log(study))
    return {
        "steps": len(seconds),
        "added_up_s": round(sum(seconds.values())),
        "compiler": version,
        "options": list(OPTIONS),
        "jobs": study.jobs,
    }


def read_ninja_log(study: Study) -> set[str]:
    """Return the lines of ninja's log, one for each step."""
    lines = (study.build / ".ninja_log").read_text().splitlines()
    return {line for line in lines if not line.startswith("#")}


def time_steps(lines: set[str]) -> dict[str, float]:
    """Return how long the step of each output took, in seconds. A line begins with its start and end."""
    fields = [line.split("\t") for line in lines]
    return {words[3]: (int(words[1]) - int(words[0])) / 1000 for words in fields}


def build_command(study: Study) -> tuple[str | Path, ...]:
    """Return the command that brings the build up to date."""
    return ("cmake", "--build", study.build, "-j", str(study.jobs), "--target", *TARGETS)


def make_model(study: Study) -> dict[str, Any]:
    """Make the model with PyPI's package gguf, in a folder of its own."""
    packages, log = study.folder / "python", study.log("model")
    run("pip", "install", "--upgrade", "--target", packages, GGUF, log=log)
    variables = {"PYTHONPATH": str(packages)}
    script = Path(__file__).with_name("model.py")
    done = run("python3", script, study.model, log=log, variables=variables)
    return {"size_bytes": study.model.stat().st_size, "package": GGUF, **dict_of(done.out)}


def dict_of(lines: str) -> dict[str, int]:
    """Read lines of a name and a number."""
    return {name: int(value) for name, value in (line.split() for line in lines.splitlines())}


def program(study: Study, kind: str = "plain") -> tuple[str | Path, ...]:
    """Return the command whose kernels are captured: a prompt of 44 tokens, and four more tokens."""
    words: tuple[str | Path, ...] = (
        study.build / "bin/llama-cli", "-m", study.model, "-ngl", "99", "-no-cnv", "--no-warmup",
        "--ignore-eos", "-c", "256", "-b", "64", "-ub", "64", "-t", "2",
        "-s", "1", "--temp", "0", "-n", "4", "-p", "A kernel is taken out of this program alone",
    )  # fmt: skip
    return (*words, "-fa") if kind == "flash" else words
