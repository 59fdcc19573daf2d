"""An application as a build leaves it, and the documented commands on the software GPU."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from programs import cache_folder, compiler_version
from stages import Finished

DEMO = Path(__file__).parents[2] / "programs/demo"
TIMEOUT_S = 300


@dataclass
class Shell:
    """Runs command lines as a user types them, in one folder, on the software GPU."""

    folder: Path
    store: Path
    target: str = "gfx90a"
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        scripts = str(Path(sys.executable).parent)
        own = {"KERNCAP_STORE": str(self.store), "PATH": f"{scripts}:{os.environ['PATH']}"}
        # Only for what stages run: make, awk and the compiler need no GPU, so nothing is preloaded here.
        return {**os.environ, "KERNCAP_SOFTGPU_TARGET": self.target, **own, **self.variables}

    def __call__(self, line: str, *, code: int | None = 0, folder: Path | None = None) -> Finished:
        """Run a line in bash; any exit code will do when ``code`` is none."""
        return self.run(["bash", "-euo", "pipefail", "-c", line], code=code, folder=folder)

    def run(self, words: list[str], *, code: int | None = 0, folder: Path | None = None) -> Finished:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=self.environment,
            cwd=folder or self.folder,
            timeout=TIMEOUT_S,
            check=False,
        )
        finished = Finished(words, done.returncode, done.stdout, done.stderr)
        return finished if code is None else finished.must(code)


def build_application(folder: Path, target: str = "gfx90a") -> None:
    """The demo program, with a compilation database; compiled once for all tests of this compiler."""
    shutil.copytree(DEMO, folder)
    flags = f"-O3 -I{folder}/include --offload-arch={target}"
    database = [
        {"directory": str(folder), "file": source, "command": f"hipcc {flags} -c {source} -o unit.o"}
        for source in ("src/main.cpp", "src/matvec.hip")
    ]
    (folder / "compile_commands.json").write_text(json.dumps(database, indent=1))
    import hashlib

    sources = "".join(path.read_text() for path in sorted(folder.rglob("*.[hc]*")) if path.is_file())
    sources += (folder / "src/matvec.hip").read_text() + compiler_version("") + target
    key = hashlib.sha256(sources.replace(str(folder), "").encode()).hexdigest()[:16]
    cached = cache_folder() / f"demo-application-{key}"
    if not cached.exists():
        cached.parent.mkdir(parents=True, exist_ok=True)
        fresh = cached.with_name(f".{cached.name}-{os.getpid()}")
        command = ["hipcc", *flags.split(), "src/main.cpp", "src/matvec.hip", "-o", str(fresh)]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
        fresh.rename(cached)
    shutil.copy(cached, folder / "demo")


@pytest.fixture(scope="session")
def application(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a built application: sources, ``compile_commands.json``, executable ``demo``."""
    if shutil.which("hipcc") is None:
        pytest.skip("needs hipcc: run it in the ROCm root")
    folder = tmp_path_factory.mktemp("application") / "app"
    build_application(folder)
    return folder


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path, tmp_path / "store")


@pytest.fixture(scope="module")
def extracted(application: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Shell, Path, Finished]:
    """A project made by ``kerncap extract``, once for a module: copy it before changing it."""
    folder = tmp_path_factory.mktemp("extracted")
    shell = Shell(folder, folder / "store")
    done = shell(
        f"kerncap extract demo::add_rows --cmd {application}/demo --dispatch 1 "
        f"--source-dir {application} --output project"
    )
    return shell, folder / "project", done


@pytest.fixture
def project(extracted: tuple[Shell, Path, Finished], tmp_path: Path) -> Path:
    """A copy of the project, to be changed."""
    shutil.copytree(extracted[1], tmp_path / "project")
    return tmp_path / "project"
