"""What `make` runs inside the ROCm root: an environment of pinned versions, an incremental build, the checks.

Everything made here lives in the cache, in a folder of this checkout's own, so that nothing is left in the
source tree and a second run builds only what changed.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
import tomllib
import zipfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import environments
from building import build
from sanitize import sanitize, sanitize_softgpu

TOP = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TOP))

from kerncap_stages.rocm_root import namespaces  # noqa: E402 - of this source tree, standard library only
from kerncap_stages.rocm_root.enter import MARKER  # noqa: E402 - likewise

if TYPE_CHECKING:
    from collections.abc import Iterator

CACHE = Path(os.environ["KERNCAP_ROOT_CACHE"])
CONSTRAINTS = TOP / "tools/constraints.txt"
FUZZ_S = 20  # of each `make test`; what it learns is kept for the next
WORKERS = 2  # two captures at once, or a capture and a compiler, want less than CI's memory


def key(*parts: str) -> str:
    """A short name for what was made from ``parts``."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def _content(wheel: Path) -> str:
    """Identify what a wheel holds, whatever the times of its members."""
    with zipfile.ZipFile(wheel) as archive:
        return key(*sorted(f"{member.filename} {member.CRC}" for member in archive.infolist()))


def _beside(folder: Path) -> Path:
    """Show the source tree in ``folder`` too, to this process and its children alone.

    From the build folder it has the same relative path in every checkout then, so that all of them share what
    ccache holds. Where mounting is not allowed (a container), the tree is built from where it is.
    """
    place = folder / "tree"
    place.mkdir(parents=True, exist_ok=True)
    try:
        namespaces.bind(TOP, place)
        namespaces.make_read_only(place)  # whoever clears the cache must not reach the sources
    except OSError:
        return TOP
    return place


class Workbench:
    """A folder in the cache for this checkout in this root: virtual environments and build folders."""

    def __init__(self) -> None:
        rocm = json.loads(MARKER.read_text())["rocm"]
        # One for each root too: their headers and compilers differ.
        self.folder = CACHE / "checkouts" / f"{TOP.name}-{key(str(TOP))}-rocm-{rocm}"
        project = tomllib.loads((TOP / "pyproject.toml").read_text())
        package = project["project"]
        self.requirements = [*project["build-system"]["requires"], *package["dependencies"]]
        self.requirements += package["optional-dependencies"]["dev"]
        self.requirements += package["optional-dependencies"]["cuda"]
        python = Path(sys.executable).resolve()
        interpreter = (str(python), str(python.stat().st_mtime_ns))
        state = key("pinned", *self.requirements, CONSTRAINTS.read_text(), *interpreter)
        self.pinned = self.folder / f"venv-{state}"
        self.source = _beside(self.folder)
        self.build = self.folder / "objects"
        self.wheels = self.folder / "wheels"
        os.environ["PATH"] = f"{self.pinned}/bin:/usr/lib/ccache:{os.environ['PATH']}"
        os.environ.setdefault("CCACHE_DIR", str(CACHE / "ccache"))
        os.environ.update(
            CCACHE_BASEDIR=str(self.folder), CCACHE_NOHASHDIR="1", CCACHE_COMPILERCHECK="content"
        )

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Nobody else builds meanwhile, or tests what lies in the build folders."""
        self._forget_lost_checkouts()
        with (self.folder / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                say("another command of this checkout builds, or runs native tests: waiting for it")
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def prepare(self) -> None:
        """Virtual environment, build, and the wheel installed: what this command and its children run."""
        if not environments.is_whole(self.pinned):
            environments.remove_unused((*self.folder.glob("pkg-*"), *self.folder.glob("venv-*")))
            say(f"virtual environment {self.pinned}")
            environments.make_pinned(self.pinned, CONSTRAINTS, self.requirements, call)
        environments.use(self.pinned)
        wheel = self._build_wheel()
        content = key("linked", _content(wheel), self.pinned.name)
        installed = self.folder / f"pkg-{content}"
        if not environments.is_whole(installed):
            environments.remove_unused(self.folder.glob("pkg-*"))
            environments.make_installed(installed, self.pinned, wheel, call)
        environments.use(installed)
        os.environ["PATH"] = f"{installed}/bin:{os.environ['PATH']}"

    def _forget_lost_checkouts(self) -> None:
        """Remove what belonged to source trees that are gone."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "source").write_text(str(TOP))
        for source in self.folder.parent.glob("*/source"):
            if _is_gone(Path(source.read_text())):
                shutil.rmtree(source.parent, ignore_errors=True)

    def _build_wheel(self) -> Path:
        say(f"build in {self.build}")
        shutil.rmtree(self.wheels, ignore_errors=True)
        settings = [f"-Csetup-args={option}" for option in ("-Dnative_tests=enabled", "-Dwerror=true")]
        settings += [f"-Cbuild-dir={self.build}", "--no-deps", "--no-build-isolation", "--no-index"]
        words = ["pip", "wheel", "-v", "--no-cache-dir", *settings, "-w", str(self.wheels), str(self.source)]
        _must_be_0(build(words, say))
        (wheel,) = self.wheels.glob("*.whl")
        return wheel

    def native_tests(self) -> None:
        """Native tests, also under sanitizers."""
        say("native tests")
        call("meson", "test", "-C", self.build, "--no-rebuild", "--print-errorlogs", "--quiet")
        self.sanitize(FUZZ_S)

    def pytest(self, selection: list[str]) -> None:
        """Pytest against the installed wheel."""
        say("pytest")
        # By file: what the tests of one share is made once. What comes later on the line counts: ARGS='-n 0'.
        words = ["-n", WORKERS, "--dist", "loadfile", *selection]
        call("pytest", *words, variables={"PYTEST_DEBUG_TEMPROOT": str(self._test_folder())})

    def sanitize(self, fuzz_s: int) -> None:
        """The store's native part under sanitizers, and fuzzed."""
        say(f"native/core under sanitizers, fuzzed for {fuzz_s} s")
        sanitize(self.folder, self.source, self.pinned / "bin/meson", fuzz_s, call)

    def sanitize_all(self, seconds: int) -> None:
        """The software GPU's device too, and what both read of others, fuzzed for ``seconds`` each."""
        self.sanitize(seconds)
        say("the software GPU's device under sanitizers")
        sanitize_softgpu(self.folder, self.source, self.pinned / "bin/meson", call)
        seed = time.time_ns() % 1_000_000
        say(f"what the software GPU reads of programs, fuzzed for {seconds} s from seed {seed}")
        for program in ("fuzz_inputs", "fuzz_images"):
            call(self.build / "tests/native/softgpu" / program, seed, seconds)

    def _test_folder(self) -> Path:
        """The user's own: inside the root everybody has the same name, but /tmp is shared."""
        machine_uid = Path("/proc/self/uid_map").read_text().split()[1]
        folder = Path(f"/tmp/kerncap-tests-{machine_uid}")  # noqa: S108 - ownership is checked by pytest
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder


def _is_gone(source: Path) -> bool:
    """Whether a source tree is no more. A root shows only trees that it was started from: ask outside."""
    outside = Path(f"/proc/{os.getppid()}/root")  # of make, which started us
    try:
        if outside.samefile("/"):
            return False
        outside.joinpath(*source.parts[1:]).stat()
    except FileNotFoundError:
        return True
    except OSError:  # not ours to look at
        pass
    return False


def say(text: str) -> None:
    """Progress, for people."""
    print(f"workbench: [{time.monotonic() - STARTED:5.0f} s] {text}", file=sys.stderr, flush=True)


def call(*command: object, variables: dict[str, str] | None = None) -> None:
    """Run a command in the source tree; a failure ends everything with its exit code."""
    words = [str(word) for word in command]
    _must_be_0(subprocess.run(words, cwd=TOP, env=os.environ | (variables or {}), check=False).returncode)


def _must_be_0(code: int) -> None:
    if code != 0:
        sys.exit(code if code > 0 else 128 - code)


def write_protocol() -> None:
    """Put the collector's half of the protocol where mypy looks for it; a build writes its own."""
    folder = TOP / "native/capture/protocol"
    output = TOP / "kerncap_stages/collect/protocol.py"
    call("python", folder / "generate.py", folder / "protocol.py.j2", folder / "protocol.toml", output)


def main() -> None:
    """One verb, and what follows it goes to pytest."""
    verb, *rest = sys.argv[1:]
    bench = Workbench()
    with bench.alone():
        bench.prepare()
        match verb:
            case "test" | "test-all":
                bench.native_tests()
            case "bench":
                call("python", TOP / "benchmarks", "--build", bench.build, *rest)
            case "sanitize":
                bench.sanitize_all(int(rest[0]) if rest else 5 * 60)
    # From here on others may build: what this command uses stays.
    match verb:
        case "bench" | "sanitize":
            pass
        case "test":
            bench.pytest(["-m", "not slow", *rest])
        case "test-all":
            bench.pytest(rest)
        case "demo":
            call("python", TOP / "tools/demo.py")
        case "check":
            call("ruff", "check", ".")
            call("ruff", "format", "--check", ".")
            write_protocol()
            call("mypy")
        case "format":
            call("ruff", "check", "--fix", "--exit-zero", ".")  # long lines may be what formatting mends
            call("ruff", "format", ".")
        case "golden":
            call("pytest", "--rewrite-golden", *rest)
        case "schemas":
            call("python", "-m", "kerncap_stages.manifests.schemas", "schemas")
        case "shell":
            call("python3", TOP / "tools/shell.py", *rest)
        case _:
            sys.exit(f"workbench: no verb {verb!r}")


STARTED = time.monotonic()

if __name__ == "__main__":
    main()
