"""What every test can use: golden files, which `make golden` rewrites, own mounts, back ends, addresses."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest
from nvidia_gpu import architecture, spread_over_gpus, why_none
from programs import SOURCES

from kerncap_stages.errors import Refused
from kerncap_stages.rocm_root.children import run_in_child
from kerncap_stages.rocm_root.enter import MARKER
from kerncap_stages.rocm_root.namespaces import mount

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


def pytest_configure(config: pytest.Config) -> None:
    worker = getattr(config, "workerinput", {}).get("workerid")  # gw0, gw1, ... of pytest-xdist's
    if worker is not None:
        spread_over_gpus(int(worker.removeprefix("gw")))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite-golden", action="store_true", help="make golden files match")


@pytest.fixture(scope="session", autouse=True)
def no_store_of_the_users(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What names no store makes one in the session's folder, never in the home folder of its user."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        yield


@pytest.fixture(scope="session", params=["hsa", pytest.param("cuda", marks=pytest.mark.gpu)])
def backend(request: pytest.FixtureRequest) -> str:
    """The back end under test: the software GPU (hsa), or an NVIDIA GPU (cuda)."""
    if request.param == "cuda" and (reason := why_none()):
        pytest.skip(reason)
    return str(request.param)


@pytest.fixture(scope="session")
def target(backend: str) -> str:
    """What programs are built for."""
    return architecture() if backend == "cuda" else "gfx90a"


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[Path, bytes], None]:
    """``golden(path, content)``: the committed file at ``path`` holds exactly ``content``."""

    def compare(path: Path, content: bytes) -> None:
        if request.config.getoption("--rewrite-golden"):
            path.write_bytes(content)
        stored = path.read_bytes() if path.exists() else None
        assert stored == content, f"{path} differs: look at it, then `make golden`"

    return compare


@pytest.fixture(scope="session")
def own_mounts(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Needed by tests whose programs mount file systems that nobody else sees."""
    place = tmp_path_factory.mktemp("mounts")
    try:
        assert run_in_child(lambda: mount("tmpfs", place, "tmpfs", 0), private=True) == 0
    except Refused as refused:
        # Whatever made this root, mounted it: here these tests always run.
        made_by_us = MARKER.exists() and "made_at" in json.loads(MARKER.read_text())
        (pytest.fail if made_by_us else pytest.skip)(f"nothing can be mounted: {refused}; {refused.hint}")


@pytest.fixture(scope="session")
def taker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a library that takes an address range before the program that it is loaded into begins."""
    library = tmp_path_factory.mktemp("taker") / "libtaker.so"
    source = SOURCES / "processes/taker.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", str(source), "-o", str(library)], check=True)
    return library
