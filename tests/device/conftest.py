"""Programs and commands for tests on a real NVIDIA GPU. Everywhere else they are skipped, with the reason."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from nvidia_gpu import architecture

HERE = Path(__file__).parent
LIMIT_S = 120


def pytest_collection_modifyitems(items):
    missing = [what for what, there in (
        ("no NVIDIA GPU (/dev/nvidiactl is not there)", Path("/dev/nvidiactl").exists()),
        ("no nvcc on PATH", shutil.which("nvcc") is not None),
    ) if not there]  # fmt: skip
    for item in items:
        if HERE in Path(item.path).parents:
            item.add_marker(pytest.mark.gpu)
            if missing:
                item.add_marker(pytest.mark.skip(reason=missing[0]))


@dataclass(frozen=True)
class Done:
    """What a command came to."""

    code: int
    out: str
    err: str

    @property
    def digest(self) -> str:
        lines = self.out.split()
        assert len(lines) == 1, self
        return lines[0]


class Commands:
    """Runs executables of the product against a store of the test's own."""

    def __init__(self, store: Path, folder: Path) -> None:
        self.store = store
        self.folder = folder

    def run(self, *words: object, stdin: str | None = None) -> Done:
        done = subprocess.run(
            [str(word) for word in words],
            cwd=self.folder,
            env={**os.environ, "KERNCAP_STORE": str(self.store)},
            capture_output=True,
            text=True,
            errors="replace",
            input=stdin,
            timeout=LIMIT_S,
            check=False,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def ok(self, *words: object) -> Done:
        done = self.run(*words)
        assert done.code == 0, f"{words}: exit code {done.code}\n{done.out}\n{done.err}"
        return done

    def capture(self, kernel: str, *words: object, dispatch: int = 0) -> str:
        return self.ok("kc-capture", "--kernel", kernel, "--dispatch", dispatch, "--", *words).digest

    def show(self, artifact: str) -> dict:
        return json.loads(self.ok("kc-show", "--json", artifact).out)


@pytest.fixture
def kc(tmp_path):
    return Commands(tmp_path / "store", tmp_path)


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """All programs and variants of this folder, built with all cores: name -> path."""
    folder = tmp_path_factory.mktemp("built")
    arch = architecture()
    jobs = []
    for source in sorted((HERE / "programs").glob("*.cu")):
        # What a program needs besides stands in its own first lines.
        needs = re.search(r"^// nvcc: (.*)", source.read_text(), re.MULTILINE)
        flags = ["-O2", "-lineinfo", *(needs[1].split() if needs else ())]
        jobs.append((source.stem, folder / source.stem, [*flags, str(source)]))
    for source in sorted((HERE / "variants").glob("*.cu")):
        for form in ("cubin", "ptx", "fatbin"):
            name = f"{source.stem}.{form}"
            jobs.append((name, folder / name, ["-O2", f"-{form}", str(source)]))

    def build(job):
        name, path, words = job
        done = subprocess.run(
            ["nvcc", f"-arch={arch}", *words, "-o", str(path)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return name, path

    with ThreadPoolExecutor() as pool:
        return dict(pool.map(build, jobs))
