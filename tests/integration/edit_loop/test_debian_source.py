"""A code base that nobody here wrote: hipCUB as Debian has it, with CMake, on rocPRIM's headers.

Downloads from the archive that the root's own apt is set up for; several minutes on a small machine.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from programs import cache_folder
from stages import Stages

from kerncap_stages.store import Store

EXAMPLE = "example_device_reduce"
TIMEOUT_S = 900

pytestmark = pytest.mark.slow


def run(*words: object, cwd: Path | None = None, **variables: str) -> str:
    command = [str(word) for word in words]
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}"
    return done.stdout


def download(folder: Path) -> None:
    """The source of hipCUB, the headers of rocPRIM and ROCm's CMake modules, and a CMake."""
    state = folder / "apt"
    (state / "lists/partial").mkdir(parents=True, exist_ok=True)
    (state / "cache/archives/partial").mkdir(parents=True, exist_ok=True)
    binary = Path("/etc/apt/sources.list").read_text()
    sources = state / "sources.list"
    sources.write_text(
        binary + "".join(f"deb-src {line[4:]}\n" for line in binary.splitlines() if line[:4] == "deb ")
    )
    options = [
        f"Dir::Etc::sourcelist={sources}",
        "Dir::Etc::sourceparts=-",
        f"Dir::State::lists={state}/lists",
    ]
    options += [f"Dir::Cache={state}/cache", "APT::Sandbox::User=root", "Acquire::Retries=3"]
    apt = ["apt-get", "-q", *(word for option in options for word in ("-o", option))]
    run(*apt, "update")
    run(*apt, "download", "librocprim-dev", "rocm-cmake", cwd=folder)
    # The packaging's own files may have moved on in the archive; the upstream source is what is built here.
    subprocess.run(
        [*apt, "source", "--download-only", "hipcub"], cwd=folder, capture_output=True, check=False
    )
    assert list(folder.glob("hipcub_*.orig.tar.*")), "apt-get source gave no hipcub_*.orig.tar.*"
    run(sys.executable, "-m", "pip", "install", "-q", "--target", folder / "cmake", "cmake")


@pytest.fixture(scope="module")
def downloads() -> Path:
    folder = cache_folder().with_name("debian-hipcub")
    if not (folder / "whole").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        try:
            download(folder)
        except (AssertionError, OSError, subprocess.TimeoutExpired) as error:
            pytest.skip(f"the archive cannot be reached: {error}")
        (folder / "whole").touch()
    return folder


@pytest.fixture(scope="module")
def built(downloads: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """hipCUB configured with compile commands, and one of its examples built."""
    folder = tmp_path_factory.mktemp("hipcub")
    for package in downloads.glob("*.deb"):
        run("dpkg-deb", "-x", package, folder / "prefix")
    with tarfile.open(next(downloads.glob("hipcub_*.orig.tar.*"))) as archive:
        archive.extractall(folder / "src", filter="data")
    (source,) = (folder / "src").iterdir()
    prefix = folder / "prefix/usr"
    cmake = (sys.executable, "-m", "cmake")  # its script in bin/ names the Python that installed it
    settings = {
        "CMAKE_PREFIX_PATH": f"{prefix};{prefix}/share",
        "CMAKE_CXX_COMPILER": "hipcc",
        "CMAKE_BUILD_TYPE": "Release",
        "CMAKE_EXPORT_COMPILE_COMMANDS": "ON",
        "BUILD_EXAMPLE": "ON",
        "BUILD_TEST": "OFF",
        "BUILD_BENCHMARK": "OFF",
        "GPU_TARGETS": "gfx90a",
        "AMDGPU_TARGETS": "gfx90a",
    }
    words = [f"-D{name}={value}" for name, value in settings.items()]
    path = {"PYTHONPATH": str(downloads / "cmake")}
    run(*cmake, "-S", source, "-B", folder / "build", *words, **path)
    run(*cmake, "--build", folder / "build", "--target", EXAMPLE, **path)
    return folder


def test_a_kernel_of_hipcub_is_located_rebuilt_edited_and_judged(built: Path, tmp_path: Path):
    Store.open(tmp_path / "store")
    stages = Stages(tmp_path / "store", tmp_path, "gfx90a")
    (capture,) = stages.capture("block_reduce_kernel", built / f"build/example/hipcub/{EXAMPLE}")
    trees = ["--source-dir", built / "src", "--source-dir", built / "prefix/usr/include"]
    database = ["--compile-commands", built / "build/compile_commands.json"]
    source = stages.run("locate", capture, *trees, *database, "--json").must().manifest
    # A kernel template of a header, reached through macros that open its namespaces, in one of nine units.
    assert source["definition"]["path"].endswith("rocprim/device/device_reduce.hpp")
    assert source["compile_command"]["translation_unit"].endswith(f"{EXAMPLE}.cpp")
    assert source["headers_by_compiler"]
    assert len(source["files"]) > 50
    stages.run("generate", "@source", "--output", "project").must()
    project = tmp_path / "project"
    shutil.move(built / "src", built / "hidden")
    try:
        run("make", "-C", project, "recompile")
    finally:
        shutil.move(built / "hidden", built / "src")
    said = stages.run("validate", "project").must().err
    assert "Result: PASS  (byte-exact" in said
    edited = project / "kernel_variant.cpp"
    head, name, body = edited.read_text().partition("block_reduce_kernel(")
    edited.write_text(head + name + body.replace("{", "{\n    return;", 1))
    run("make", "-C", project, "recompile")
    assert "does not write it" in stages.run("validate", "project").must(1).err
