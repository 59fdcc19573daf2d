"""Programs and commands for tests on a real NVIDIA GPU. Everywhere else they are skipped, with the reason."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from device_programs import device_build
from nvidia_gpu import architecture, gpu_count, why_none
from programs import compile_once
from shared import folder_of_run, made_once

HERE = Path(__file__).parent
LIMIT_S = 120


def pytest_collection_modifyitems(items):
    missing = why_none()
    for item in items:
        if HERE in Path(item.path).parents:
            item.add_marker(pytest.mark.gpu)
            if missing:
                item.add_marker(pytest.mark.skip(reason=missing))


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
def of_run(tmp_path_factory):
    return folder_of_run(tmp_path_factory)


@pytest.fixture
def captured(kc, of_run):
    """Captures a dispatch once for all tests of a run; its digest, and the test's own copy of the store.

    It passes validation, whose replays of it are in that store: judging a variant does not make them again.
    """

    def copy(kernel: str, program: Path, dispatch: int = 0) -> str:
        def capture(folder: Path) -> str:
            commands = Commands(folder / "store", folder)
            digest = commands.capture(kernel, program, dispatch=dispatch)
            commands.ok("kc-validate", digest)
            return digest

        folder = of_run / "captures" / f"{program.name}-{kernel}-{dispatch}"
        digest = made_once(folder, capture)
        shutil.copytree(folder / "store", kc.store)
        return digest

    return copy


class Built:
    """Programs and variants of this folder by name, or name.FORM; each is built when it is first wanted."""

    def __getitem__(self, name: str) -> Path:
        return compile_once(device_build(name))


@pytest.fixture
def built():
    return Built()


@pytest.fixture
def spins_project(kc, built):
    """Project `tuned` of a kernel of known_times.cu: it takes SPIN ns (-DSPIN); with 50,000 it is wrong."""
    programs = HERE / "programs"
    command = [
        "nvcc",
        "-O3",
        f"-arch={architecture()}",
        f"-I{programs}",
        "-c",
        str(programs / "known_times.cu"),
    ]
    entry = {"directory": str(kc.folder), "file": str(programs / "known_times.cu"), "arguments": command}
    commands = kc.folder / "compile_commands.json"
    commands.write_text(json.dumps([entry]))
    capture = kc.capture("takes_200_us", built["known_times"])
    found = ("--source-dir", programs, "--compile-commands", commands)
    kc.ok("kc-generate", kc.ok("kc-locate", capture, *found).digest, "--output", "tuned")
    project = kc.folder / "tuned"
    source = project / "kernel_variant.cu"
    text = source.read_text()
    old = "spin(200'000), *runs += 1"
    assert old in text
    new = "spin(SPIN), *runs += SPIN == 50000 ? 2 : 1"
    source.write_text("#ifndef SPIN\n#define SPIN 200000\n#endif\n" + text.replace(old, new))
    return project


@pytest.fixture
def two_gpus():
    """Skips the test where there is one."""
    if gpu_count() < 2:
        pytest.skip("needs a second GPU")


@pytest.fixture
def much_memory():
    """Of all workers' tests, one at a time that takes a large part of the device's memory."""
    with Path(tempfile.gettempdir(), "kerncap-much-memory.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
