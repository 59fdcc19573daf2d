"""What a stage says of a path that is neither a project nor an artifact."""

from __future__ import annotations

import json
import shutil

import executables
import pytest

from kerncap_stages.cli.artifacts import explain_path
from kerncap_stages.project.folder import is_project

AMD = b"\x7fELF\x02\x01\x01\x40" + bytes(8) + b"\x03\x00" + (224).to_bytes(2, "little") + bytes(64)
HOST = b"\x7fELF\x02\x01\x01\x00" + bytes(8) + b"\x03\x00" + (62).to_bytes(2, "little") + bytes(64)


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "work/project"
    (folder / "capture").mkdir(parents=True)
    record = {"schema_version": 1, "reproducer": "0" * 64, "kernels": [], "captures": [], "files": {}}
    (folder / "capture/project.json").write_text(json.dumps(record))
    assert is_project(folder)
    return folder


def test_a_folder_names_the_projects_in_it(project):
    said = explain_path(str(project.parent))
    assert "is a folder, but not a project" in str(said)
    assert said.hint == f"name a project in it: {project}"
    for number in range(6):
        shutil.copytree(project, project.parent / f"project-{number}")
    hint = explain_path(str(project.parent)).hint
    assert hint.startswith(f"name a project in it: {project}, {project}-0, ")
    assert hint.endswith(f"{project}-3 and 2 more")
    said = explain_path(str(project / "capture"))
    assert said.hint.startswith("`kc-generate CAPTURE --output FOLDER`")


def test_files_are_called_what_they_are(project, tmp_path):
    code, program, text = project / "optimized.hsaco", tmp_path / "app", tmp_path / "kernel.hip"
    code.write_bytes(AMD)
    program.write_bytes(HOST)
    program.chmod(0o755)
    text.write_text("__global__ void f();")
    said = explain_path(str(code))
    assert "is a code object;" in str(said)
    assert said.hint.endswith(f": {project} --variant {code}")
    assert "is a program;" in str(explain_path(str(program)))
    assert (
        explain_path(str(program)).hint == f"`kc-capture --kernel NAME -- {program}` captures a kernel of it"
    )
    assert "is a file; a project or a capture is needed" in str(explain_path(str(text)))
    (project / "README.md").write_text("x")
    assert explain_path(str(project / "README.md")).hint == f"name the folder: {project}"


def test_what_is_not_there_is_not_explained(tmp_path):
    assert explain_path(str(tmp_path / "nothing")) is None
    assert explain_path("a" * 5000) is None
    assert explain_path("nul\0") is None


@pytest.mark.parametrize("stage", ["kc-validate", "kc-replay"])
def test_stages_explain_paths(store, tmp_path, stage):
    done = executables.run(stage, tmp_path, store=store.root)
    assert done.returncode == 3
    assert "is a folder, but not a project of kc-generate" in done.stderr
    missing = executables.run(stage, "no-such-thing", store=store.root)
    assert "matches 'no-such-thing'" in missing.stderr


@pytest.mark.parametrize(
    ("stage", "option", "other"),
    [
        ("kc-validate", "--compare", "kc-replay PROJECT --compare FILE"),
        ("kc-validate", "--iterations", "kc-replay PROJECT --compare FILE"),
        ("kc-replay", "--rtol", "kc-validate PROJECT"),
    ],
)
def test_an_option_of_another_stage_names_that_stage(stage, option, other, store):
    done = executables.run(stage, "project", option, "1", store=store.root)
    assert done.returncode == 2
    error, hint = done.stderr.splitlines()
    assert error == f"{stage}: error: No such option: {option}"
    assert hint.startswith(f"  next: `{other}` ")
