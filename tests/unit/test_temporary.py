"""Temporary folders of killed processes go; those of living ones, of others and of other users stay."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile

import pytest
import small_disk

from kerncap_stages.machine import temporary
from kerncap_stages.machine.temporary import TemporaryFolder, remove_stale

HOLDS = """
import sys
from pathlib import Path
from kerncap_stages.machine.temporary import TemporaryFolder
folder = TemporaryFolder("test", Path(sys.argv[1]))
(folder.path / "file").write_text("content")
print(folder.path, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    """A process that has a folder, and that folder's name."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDS, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        yield process, process.stdout.readline().strip()
        process.kill()


def names(folder):
    return {path.name for path in folder.iterdir()}


def test_a_folder_goes_with_its_block(tmp_path):
    with TemporaryFolder("test", tmp_path) as folder:
        (folder / "file").touch()
        assert folder.stat().st_mode & 0o777 == 0o700
    assert names(tmp_path) == set()


def test_what_a_killed_process_left_goes_and_what_a_living_one_has_stays(tmp_path, holder):
    process, folder = holder
    remove_stale(tmp_path)
    assert [str(path) for path in tmp_path.iterdir()] == [folder]
    process.send_signal(signal.SIGKILL)
    process.wait()
    temporary._swept.discard(tmp_path)
    with TemporaryFolder("test", tmp_path) as ours:
        assert list(tmp_path.iterdir()) == [ours]


def test_what_is_not_ours_stays(tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/file").touch()
    (tmp_path / "kerncap-stages-link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "kerncap-stages-file").touch()
    (tmp_path / "kerncap-else").mkdir()
    before = names(tmp_path)
    remove_stale(tmp_path)
    assert names(tmp_path) == before
    assert (tmp_path / "elsewhere/file").exists()
    (tmp_path / "kerncap-stages-test-theirs").mkdir()
    monkeypatch.setattr("os.geteuid", lambda: os.getuid() + 1)
    remove_stale(tmp_path)
    assert names(tmp_path) == before | {"kerncap-stages-test-theirs"}


def test_one_that_is_taken_for_stale_before_it_is_locked_is_made_again(tmp_path, monkeypatch):
    made = []

    def locked_too_late(fd):
        made.append(fd)
        if len(made) == 1:
            remove_stale(tmp_path)
        return True

    monkeypatch.setattr(temporary, "_try_lock", locked_too_late)
    with TemporaryFolder("test", tmp_path) as folder:
        assert len(made) == 2
        assert folder.is_dir()


def test_one_that_is_removed_before_it_is_opened_is_made_again(tmp_path, monkeypatch):
    make, made = tempfile.mkdtemp, []

    def made_too_early(**place):
        made.append(make(**place))
        if len(made) == 1:
            remove_stale(tmp_path)
        return made[-1]

    monkeypatch.setattr(tempfile, "mkdtemp", made_too_early)
    with TemporaryFolder("test", tmp_path) as folder:
        assert [str(folder)] == made[1:]


@pytest.mark.usefixtures("own_mounts")
@pytest.mark.parametrize("size_bytes", [8 << 10, 1 << 20])
def test_a_full_temporary_folder_is_named_with_the_next_step(tmp_path, size_bytes):
    script = (
        "from kerncap_stages.cli.console import report\n"
        "from kerncap_stages.machine.temporary import TemporaryFolder\n"
        "try:\n"
        "    with TemporaryFolder('test') as folder:\n"
        f"        (folder / 'file').write_bytes(bytes({2 * size_bytes}))\n"
        "except OSError as error:\n"
        "    raise SystemExit(report(error))\n"
    )
    done = subprocess.run(
        [sys.executable, small_disk.__file__, tmp_path, str(size_bytes), sys.executable, "-c", script],
        env=os.environ | {"TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 4
    assert f"error: {tmp_path}: No space left on device\n" in done.stderr
    assert (
        "next: free space there, and run it again; temporary files go to the folder that TMPDIR names"
        in done.stderr
    )


def test_a_full_disk_elsewhere_is_not_taken_for_the_temporary_folder(tmp_path):
    with (
        pytest.raises(OSError, match="No space left") as raised,
        TemporaryFolder("test", tmp_path),
        open("/dev/full", "wb", buffering=0) as full,  # noqa: PTH123 - unbuffered
    ):
        full.write(b"text")
    assert raised.value.filename is None
