"""A project that was moved: to another folder, and into another root file system with another ROCm."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from programs import COMMON_FLAGS, SOURCES, Build, Program, compile_once, compiler_version, in_rocm
from softgpu import refusal
from stages import Stages

from kerncap_stages.code.read import read_code_object
from kerncap_stages.rocm_root.namespaces import has_all_ids
from kerncap_stages.store import Store

OTHER_USER = 4321
DEMO = SOURCES / "edit_loop/typed_outputs.hip"


@pytest.fixture(scope="module")
def moved_project(tmp_path_factory):
    """A project far from where it was made, with everything that it was made from gone."""
    tmp_path = tmp_path_factory.mktemp("elsewhere")
    tree, folder = tmp_path / "tree", tmp_path / "work"
    tree.mkdir()
    folder.mkdir()
    Store.open(tmp_path / "store")
    stages = Stages(tmp_path / "store", folder)
    shutil.copy(DEMO, tree / "outputs.hip")
    words = ["hipcc", "-O3", *COMMON_FLAGS, "--offload-arch=gfx90a", "-c", "outputs.hip"]
    entry = {"directory": str(tree), "file": "outputs.hip", "arguments": words}
    (tree / "compile_commands.json").write_text(json.dumps([entry]))
    app = compile_once(Build(Program(DEMO), "gfx90a", "O3"))
    (capture,) = stages.capture("by_symbol", app)
    source = stages.run("locate", capture, "--source-dir", tree).must().digests[0]
    stages.run("generate", source, "--output", "project").must()
    moved = tmp_path / "moved"
    shutil.move(folder / "project", moved)
    for gone in (tree, folder, stages.store):
        shutil.rmtree(gone)
    return moved


@pytest.fixture
def project(moved_project, stages, tmp_path):
    """Such a project of the test's own; there is no store but its own."""
    shutil.rmtree(stages.store)
    return shutil.copytree(moved_project, tmp_path / "some where else" / "it's here", symlinks=True)


TARGETS = ("help", "run", "validate", "recompile", "run-variant", "bench", "validate-variant")


def make_all(stages, project: Path, *before: str, home: Path | None = None) -> str:
    """Run every target of a project, with ``before`` in front; returns what the last one said."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**stages.environment, "PATH": path, "HOME": str(home or project.parent)}
    del environment["KERNCAP_STORE"]
    for target in TARGETS:
        done = subprocess.run(
            [*before, "make", "-C", project, target],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    return done.stderr


def test_it_is_rebuilt_replayed_and_judged_without_what_it_was_made_from(stages, project):
    assert "Result: PASS  (byte-exact" in make_all(stages, project)
    subprocess.run(["make", "-C", project, "clean"], check=True, capture_output=True)
    assert not (project / "optimized.hsaco").exists()


def test_it_is_rebuilt_replayed_and_judged_in_another_root_with_another_rocm(stages, project):
    other = "6.4" if "HIP version: 7" in compiler_version("") else "7.2"
    reason = refusal(other)
    if reason:
        pytest.skip(reason)
    before = (project / "capture/kernel.hsaco").read_bytes()
    said = make_all(stages, project, *in_rocm(other), "env", *search_path())
    assert "Result: PASS" in said
    rebuilt = (project / "optimized.hsaco").read_bytes()
    assert rebuilt != before  # another compiler has been at work
    assert any("by_symbol" in symbol for symbol in read_code_object(rebuilt).kernels)


def search_path() -> list[str]:
    """Our executables first, whatever a root sets."""
    return [f"PATH={Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin:/opt/rocm/bin"]


READ_ONLY = Path(__file__).parents[2] / "helpers/read_only_folder.py"


@pytest.mark.usefixtures("own_mounts")
@pytest.mark.parametrize("by_option", [True, False])
def test_a_project_that_may_only_be_read_is_judged_and_replayed_in_the_users_store(
    stages, project, tmp_path, by_option
):
    """As on a shared disk: nothing is written into the project, and the next stage finds the verdict."""
    (project / "optimized.hsaco").write_bytes((project / "capture/kernel.hsaco").read_bytes())
    before = sorted((path, path.lstat().st_mtime_ns) for path in project.rglob("*"))
    users = tmp_path / "users store"
    option = ("--store", users) if by_option else ()
    environment = {**stages.environment, "KERNCAP_STORE": str(tmp_path / "none" if by_option else users)}

    def run(stage, *words):
        command = [sys.executable, "-P", READ_ONLY, project, stage, *words, *option]
        return subprocess.run(
            list(map(str, command)), env=environment, capture_output=True, text=True, check=False
        )

    for stage in ("kc-validate", "kc-replay"):
        done = run(stage, project)
        assert done.returncode == 0, done.stderr
        shown = run("kc-show", "--json", done.stdout.strip())
        assert json.loads(shown.stdout)["kind"] == stage.removeprefix("kc-").replace("validate", "validation")
    verdict = run("kc-validate", project).stdout.strip()
    assert json.loads(run("kc-show", "--json", "@validation").stdout)["mode"] == "byte_exact"
    assert run("kc-show", verdict).returncode == 0
    assert sorted((path, path.lstat().st_mtime_ns) for path in project.rglob("*")) == before


def test_what_is_damaged_is_looked_for_in_the_projects_own_store(stages, project):
    own = Store.open(project / "capture/store")
    damaged = next(entry.digest for entry in own.list_artifacts() if entry.kind == "capture")
    own.folder.find_object_path(damaged).unlink()
    done = stages.run("validate", project).must(3)
    assert f"error: object {damaged} is missing" in done.err
    command = shlex.join(["kc-store", "check", "--store", str(own.root)])
    assert f"  next: `{command}`" in done.err
    checked = stages.run("store", *shlex.split(command)[1:]).must(3)
    assert f"error: 1 fault in {own.root}" in checked.err


@pytest.mark.usefixtures("own_mounts")
def test_an_edit_in_a_project_that_may_only_be_read_is_told_where_to_build_it(stages, project):
    with (project / "kernel_variant.cpp").open("a") as file:
        file.write("// edited\n")
    command = [sys.executable, "-P", READ_ONLY, project, "kc-validate", project]
    done = subprocess.run(
        list(map(str, command)), env=stages.environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "copy the project to a folder that you may write to" in done.stderr


ELSEWHERE = """
import os, sys
from pathlib import Path
from kerncap_stages.rocm_root.namespaces import bind, enter_private_mounts, mount

project, place, old, aside = map(Path, sys.argv[1:5])
package = Path(sys.prefix)
enter_private_mounts()
bind(project, place)
mount("tmpfs", old, "tmpfs", 0)
# Of the folder that we alone may enter, the other user sees the package and nothing else.
closed = next((folder for folder in reversed(package.parents) if not folder.stat().st_mode & 1), None)
if closed is not None:
    bind(package, aside)
    mount("tmpfs", closed, "tmpfs", 0, "mode=755")
    package.mkdir(parents=True)
    bind(aside, package)
os.execvp(sys.argv[5], sys.argv[5:])
"""


@pytest.fixture
def place():
    """A folder that every user may enter, unlike those of pytest."""
    with tempfile.TemporaryDirectory(prefix="kerncap-elsewhere-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.usefixtures("own_mounts")
@pytest.mark.skipif(not has_all_ids(), reason="needs all rights of root, to become another user")
def test_another_user_at_another_place_can_use_it(stages, project, place, tmp_path):
    """In a mount namespace: the project lies elsewhere, its old place is empty, and it is another user's."""
    aside = tmp_path / "aside"
    aside.mkdir()
    for path in (project, *project.rglob("*")):
        os.chown(path, OTHER_USER, OTHER_USER, follow_symlinks=False)
    there = [sys.executable, "-P", "-c", ELSEWHERE, *map(str, (project, place, project.parent, aside))]
    before = [*there, "setpriv", f"--reuid={OTHER_USER}", f"--regid={OTHER_USER}", "--clear-groups"]
    command = [*before, "sh", "-c", 'id -u; ls "$0"', str(place)]
    user, *files = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert user == str(OTHER_USER)
    assert set(files) == {path.name for path in project.iterdir()}
    assert "Result: PASS  (byte-exact" in make_all(stages, place, *before, home=place)
    assert (project / "optimized.hsaco").stat().st_uid == OTHER_USER
