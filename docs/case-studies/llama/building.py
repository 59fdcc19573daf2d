"""Fetches llama.cpp, builds it for gfx90a, and makes the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from running import Study, run

# This source archive holds all of llama.cpp.
SDIST = "llama_cpp_python-0.3.9.tar.gz"
SHA256 = "a3a985f558385e2f5de5b663f4e9b0817506d6af98122450142cd98e79216370"
INSIDE = "llama_cpp_python-0.3.9/vendor/llama.cpp/"
GGUF = "gguf==0.19.0"
OPTIONS = (
    "-DCMAKE_BUILD_TYPE=Release",
    "-DGGML_HIP=ON",
    "-DAMDGPU_TARGETS=gfx90a",
    "-DLLAMA_CURL=OFF",
    "-DLLAMA_BUILD_SERVER=OFF",
    "-DLLAMA_BUILD_EXAMPLES=OFF",
    "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON",
)


class Llama(Study):
    """llama.cpp in the study's folder."""

    targets = ("llama-cli", "test-backend-ops")

    @property
    def model(self) -> Path:
        """The model's file."""
        return self.folder / "model.gguf"

    @property
    def edited(self) -> Path:
        """The folder of the kernels' sources."""
        return self.source / "ggml/src/ggml-cuda"

    def program(self, name: str) -> tuple[str | Path, ...]:
        """Return the command whose kernels are captured: a prompt of 44 tokens, and four more tokens."""
        words: tuple[str | Path, ...] = (
            self.build / "bin/llama-cli", "-m", self.model, "-ngl", "99", "-no-cnv", "--no-warmup",
            "--ignore-eos", "-c", "256", "-b", "64", "-ub", "64", "-t", "2",
            "-s", "1", "--temp", "0", "-n", "4", "-p", "A kernel is taken out of this program alone",
        )  # fmt: skip
        return (*words, "-fa") if name == "flash" else words


def fetch(study: Llama) -> dict[str, Any]:
    """Fetch the source archive, and unpack llama.cpp."""
    return study.fetch(SDIST, SHA256, INSIDE)


def build(study: Llama) -> dict[str, Any]:
    """Configure and build llama.cpp as its documentation says, but for two units."""
    # A copy beside the build: CMake reads it again whenever it configures, also when this checkout is gone.
    units = study.folder / "quick_units.cmake"
    units.write_bytes(Path(__file__).with_name("quick_units.cmake").read_bytes())
    include = f"-DCMAKE_PROJECT_llama.cpp_INCLUDE={units}"
    return {**study.configure_and_build(study.source, (*OPTIONS, include)), "options": list(OPTIONS)}


def make_model(study: Llama) -> dict[str, Any]:
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
