"""Ctrl-C while a root is made: nothing goes on, and downloads serve the next run."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest

from kerncap_stages.errors import DeviceError
from kerncap_stages.rocm_root import build, cache
from kerncap_stages.rocm_root.children import run_in_child

if TYPE_CHECKING:
    from pathlib import Path


def test_an_interrupted_child_with_a_session_is_killed_with_all_that_it_started(tmp_path: Path) -> None:
    started = tmp_path / "started"

    def run_script() -> None:
        script = f"sleep 1000 & echo $$ > {started}; kill -INT {os.getppid()}; wait"
        os.execv("/bin/sh", ["sh", "-c", script])

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background ignores it
    try:
        with pytest.raises(KeyboardInterrupt):
            run_in_child(run_script, private=False, session=True)
    finally:
        signal.signal(signal.SIGINT, before)
    alive = subprocess.run(
        ["ps", "-o", "stat=", "-g", started.read_text().strip()],
        capture_output=True, text=True, check=False,
    ).stdout.split()  # fmt: skip
    assert [state for state in alive if not state.startswith("Z")] == []


def test_a_root_that_is_not_completed_keeps_its_downloads_for_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(cache.CACHE_VARIABLE, str(tmp_path))
    recipe, root = build.find("6.4", ("blas",))
    base = cache.Root("6.4-base")
    package = "var/cache/apt/archives/librocblas.deb"

    def copy(self: build._Build, *_: object) -> None:
        (self.files / package).parent.mkdir(parents=True)

    def interrupt(self: build._Build, *_: object) -> None:
        (self.files / package).write_text("downloaded")
        raise KeyboardInterrupt

    def look(self: build._Build, *_: object) -> None:
        assert (self.files / "var/cache/apt/downloaded/librocblas.deb").read_text() == "downloaded"
        raise DeviceError("no network")

    monkeypatch.setattr(build._Build, "_copy_base", copy)
    monkeypatch.setattr(build._Build, "_check_space", lambda _: None)
    (tmp_path / "roots").mkdir()
    for run, raised in ((interrupt, KeyboardInterrupt), (look, DeviceError), (look, DeviceError)):
        monkeypatch.setattr(build._Build, "_run_in_root", run)
        with pytest.raises(raised):
            build._Build(recipe, root, ("blas",), None).make(base)
        assert not any((tmp_path / "roots").iterdir())
        assert [path.name for path in root.downloads.iterdir()] == ["librocblas.deb"]
