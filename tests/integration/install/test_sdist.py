"""The archive of sources: all that is committed, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from email import message_from_bytes
from pathlib import Path

import pytest
from programs import SOURCES

TOP = SOURCES.parents[1]
SDIST = """
import mesonpy, sys
settings = [f"-D{part}=disabled" for part in ("bindings", "cuda", "hsa", "softgpu", "native_tests")]
mesonpy.build_sdist(sys.argv[1], {"setup-args": settings})
"""


def git(*words: str) -> bytes:
    return subprocess.run(["git", "-C", str(TOP), *words], capture_output=True, check=True).stdout


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Files of the archive by their names below its one folder."""
    if not (TOP / ".git").exists():
        pytest.skip("not a git checkout: an archive is made of what is committed")
    folder = tmp_path_factory.mktemp("sdist")
    command = [sys.executable, "-c", SDIST, str(folder)]
    done = subprocess.run(command, cwd=TOP, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (made,) = folder.glob("kerncap_stages-*.tar.gz")
    top = made.name.removesuffix(".tar.gz") + "/"
    found = {}
    with tarfile.open(made) as archive:
        for member in archive.getmembers():
            assert member.name.startswith(top)
            content = archive.extractfile(member) if member.isfile() else None
            if content is not None:
                found[member.name.removeprefix(top)] = content.read()
    return found


def test_it_holds_all_that_is_committed(members: dict[str, bytes]) -> None:
    committed = {
        os.fsdecode(name) for name in git("ls-tree", "-r", "-z", "--name-only", "HEAD").split(b"\0") if name
    }
    assert members.keys() == committed | {"PKG-INFO"}
    for needed in ("LICENSE", "README.md", "meson.build", "pyproject.toml", "tools/constraints.txt"):
        assert members[needed] == git("show", f"HEAD:{needed}")


def test_its_metadata_names_what_an_installation_needs(members: dict[str, bytes]) -> None:
    about = message_from_bytes(members["PKG-INFO"])
    assert about["Name"] == "kerncap-stages"
    assert about["Requires-Python"] == ">=3.11"
    assert about["License-Expression"] == "MIT"
    assert {"cuda", "mcp"} <= set(about.get_all("Provides-Extra", []))
    assert any(line.startswith("numpy") for line in about.get_all("Requires-Dist", []))


def test_it_holds_no_path_of_the_machine_that_made_it(members: dict[str, bytes]) -> None:
    places = [os.fsencode(f"{place}/") for place in (TOP, Path.home(), os.environ["KERNCAP_ROOT_CACHE"])]
    assert [name for name, content in members.items() if any(place in content for place in places)] == []
    assert [name for name in members if name.endswith((".pyc", ".so", ".o", ".co"))] == []
