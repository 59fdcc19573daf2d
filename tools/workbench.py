"""What `make` runs inside the ROCm root: it makes an environment of pinned versions, builds, and runs checks.

Its files are in the cache, in a folder for this checkout. So it leaves nothing in the source tree, and a
second run builds only what has changed.
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
from contextlib import contextmanager, suppress
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
FUZZ_S = 20  # in each `make test`; the corpus is kept for the next run
WORKERS = 2  # two captures at once, or a capture and a compiler, need less than CI's memory


def key(*parts: str) -> str:
    """Return a short name for what was made from ``parts``."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def _hash_content(wheel: Path) -> str:
    """Return a name for a wheel's content. It does not depend on the times of the wheel's members."""
    with zipfile.ZipFile(wheel) as archive:
        return key(*sorted(f"{member.filename} {member.CRC}" for member in archive.infolist()))


def _mount_sources(folder: Path) -> Path:
    """Mount the source tree in ``folder``, for this process and its children only.

    Then it has the same path relative to the build folder in every checkout, and all checkouts share ccache's
    entries. If mounting is not allowed, as in a container, the tree is built at its own place.
    """
    place = folder / "tree"
    place.mkdir(parents=True, exist_ok=True)
    try:
        namespaces.bind(TOP, place)
        namespaces.make_read_only(place)  # deleting the cache must not delete the sources
    except OSError:
        return TOP
    return place


class Workbench:
    """A folder in the cache for this checkout in this root: virtual environments and build folders."""

    def __init__(self, *, fleet: bool = False) -> None:
        """``fleet``: with Ray, in environments of their own."""
        rocm = json.loads(MARKER.read_text())["rocm"]
        # Each root has its own folder, because headers and compilers differ.
        self.folder = CACHE / "checkouts" / f"{TOP.name}-{key(str(TOP))}-rocm-{rocm}"
        project = tomllib.loads((TOP / "pyproject.toml").read_text())
        package = project["project"]
        self.requirements = [*project["build-system"]["requires"], *package["dependencies"]]
        self.requirements += package["optional-dependencies"]["dev"]
        self.requirements += package["optional-dependencies"]["cuda"]
        self._environments = self.folder / "fleet" if fleet else self.folder
        if fleet:
            self.requirements += package["optional-dependencies"]["ray"]
            self._environments.mkdir(parents=True, exist_ok=True)
        python = Path(sys.executable).resolve()
        interpreter = (str(python), str(python.stat().st_mtime_ns))
        state = key("pinned", *self.requirements, CONSTRAINTS.read_text(), *interpreter)
        self.pinned = self._environments / f"venv-{state}"
        self.source = _mount_sources(self.folder)
        self.build = self.folder / "objects"
        self.wheels = self.folder / "wheels"
        os.environ["PATH"] = f"{self.pinned}/bin:/usr/lib/ccache:{os.environ['PATH']}"
        os.environ.setdefault("CCACHE_DIR", str(CACHE / "ccache"))
        os.environ.update(
            CCACHE_BASEDIR=str(self.folder), CCACHE_NOHASHDIR="1", CCACHE_COMPILERCHECK="content"
        )

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other commands of this checkout from building, and from testing the build, in this block."""
        self._forget_lost_checkouts()
        with (self.folder / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                say("another command of this checkout builds, or runs native tests: waiting for it")
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def prepare(self) -> None:
        """Make the environment, build, and install the wheel, for this command and its children."""
        if not environments.is_whole(self.pinned):
            environments.remove_unused(
                (*self._environments.glob("pkg-*"), *self._environments.glob("venv-*"))
            )
            say(f"virtual environment {self.pinned}")
            environments.make_pinned(self.pinned, CONSTRAINTS, self.requirements, call)
        environments.use(self.pinned)
        wheel = self._build_wheel()
        content = key("linked", _hash_content(wheel), self.pinned.name)
        installed = self._environments / f"pkg-{content}"
        if not environments.is_whole(installed):
            environments.remove_unused(self._environments.glob("pkg-*"))
            environments.make_installed(installed, self.pinned, wheel, call)
        environments.use(installed)
        os.environ["PATH"] = f"{installed}/bin:{os.environ['PATH']}"

    def _forget_lost_checkouts(self) -> None:
        """Remove the folders of checkouts that no longer exist."""
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
        _exit_on_failure(build(words, say))
        (wheel,) = self.wheels.glob("*.whl")
        return wheel

    def native_tests(self) -> None:
        """Run native tests, also under sanitizers."""
        say("native tests")
        call("meson", "test", "-C", self.build, "--no-rebuild", "--print-errorlogs", "--quiet")
        self.sanitize(FUZZ_S)

    def pytest(self, selection: list[str]) -> None:
        """Run pytest with the installed wheel."""
        say("pytest")
        # Tests of one file run in one process and share fixtures. A later -n overrides this one: ARGS='-n 0'.
        # In the order of their folders: those of unit/, which are short, come last and fill what is left.
        words = ["-n", WORKERS, "--dist", "loadfile", "--no-loadscope-reorder", *selection]
        call("pytest", *words, variables={"PYTEST_DEBUG_TEMPROOT": str(self._test_folder())})

    def sanitize(self, fuzz_s: int) -> None:
        """Test native/core, native/capture and native/replay under sanitizers, and fuzz native/core."""
        say(f"core, capture and replay of native/ under sanitizers; the first fuzzed for {fuzz_s} s")
        sanitize(self.folder, self.source, self.pinned / "bin/meson", fuzz_s, call)

    def sanitize_all(self, seconds: int) -> None:
        """Also test the software GPU's device under sanitizers, and fuzz both, ``seconds`` each."""
        self.sanitize(seconds)
        say("the software GPU's device under sanitizers")
        sanitize_softgpu(self.folder, self.source, self.pinned / "bin/meson", call)
        seed = time.time_ns() % 1_000_000
        say(f"the software GPU's input from programs, fuzzed for {seconds} s from seed {seed}")
        for program in ("fuzz_inputs", "fuzz_images"):
            call(self.build / "tests/native/softgpu" / program, seed, seconds)

    def _test_folder(self) -> Path:
        """Return this user's folder for tests. In the root all users have the same name, but share /tmp."""
        machine_uid = Path("/proc/self/uid_map").read_text().split()[1]
        folder = Path(f"/tmp/kerncap-tests-{machine_uid}")  # noqa: S108 - ownership is checked by pytest
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder


def _is_gone(source: Path) -> bool:
    """Whether a source tree no longer exists. Looks outside the root, where all trees are visible."""
    outside = Path(f"/proc/{os.getppid()}/root")  # the root file system of make, the parent process
    try:
        if outside.samefile("/"):
            return False
        outside.joinpath(*source.parts[1:]).stat()
    except FileNotFoundError:
        return True
    except OSError:  # this user may not look there
        pass
    return False


def say(text: str) -> None:
    """Print progress."""
    print(f"workbench: [{time.monotonic() - STARTED:5.0f} s] {text}", file=sys.stderr, flush=True)


def call(*command: object, variables: dict[str, str] | None = None) -> None:
    """Run a command in the source tree. If it fails, exit with its exit code.

    On Ctrl-C the command, which gets it too, ends in its own time: `make sweep` has results to write.
    """
    words = [str(word) for word in command]
    process = subprocess.Popen(words, cwd=TOP, env=os.environ | (variables or {}))
    while process.returncode is None:
        with suppress(KeyboardInterrupt):
            process.wait()
    _exit_on_failure(process.returncode)


def _exit_on_failure(code: int) -> None:
    if code != 0:
        sys.exit(code if code > 0 else 128 - code)


def write_protocol() -> None:
    """Write the collector's half of the protocol into the source tree, for mypy. A build writes its own."""
    folder = TOP / "native/capture/protocol"
    output = TOP / "kerncap_stages/collect/protocol.py"
    call("python", folder / "generate.py", folder / "protocol.py.j2", folder / "protocol.toml", output)


def main() -> None:
    """Do one verb of `make`. Most verbs pass the words after it to their command."""
    verb, *rest = sys.argv[1:]
    bench = Workbench(fleet=verb == "test-fleet" or (verb == "bench" and "fleet" in " ".join(rest)))
    with bench.alone():
        bench.prepare()
        match verb:
            case "test" | "test-all":
                bench.native_tests()
            case "bench":
                call("python", TOP / "benchmarks", "--build", bench.build, *rest)
            case "sanitize":
                bench.sanitize_all(int(rest[0]) if rest else 5 * 60)
    # From here on other commands may build. The environment of this command stays.
    match verb:
        case "bench" | "sanitize":
            pass
        case "test":
            bench.pytest(["-m", "not slow and not fleet", *rest])
        case "test-all":
            bench.pytest(["-m", "not fleet", *rest])
        case "test-fleet":
            chosen = ["-n", "0", "-m", "fleet and not slow"]
            bench.pytest([*chosen, "tests/integration/evaluate/test_fleet.py", *rest])
        case "demo":
            call("python", TOP / "tools/demo.py")
        case "check":
            call("ruff", "check", ".")
            call("ruff", "format", "--check", ".")
            write_protocol()
            call("mypy")
        case "format":
            call("ruff", "check", "--fix", "--exit-zero", ".")  # formatting may repair long lines
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
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
