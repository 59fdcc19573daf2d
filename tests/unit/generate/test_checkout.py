"""What a project's folder may hold when it is written."""

from __future__ import annotations

from pathlib import Path

import manifest_examples as examples
import pytest
from executables import publish_capture

from kerncap_stages.digest import FileRef, ManifestRef
from kerncap_stages.errors import ArtifactError, Refused, UsageError
from kerncap_stages.manifests import dump
from kerncap_stages.project.artifacts import find_project
from kerncap_stages.project.checkout import check_out
from kerncap_stages.store import Store


def publish_project(store, kernel="", **texts):
    """A reproducer of one capture with these files, `_` for `/` in their names."""
    capture = ManifestRef.to(publish_capture(store))
    plain = examples.reproducer()
    with store.begin_transaction() as transaction:
        files = tuple(
            plain.files[0].model_copy(
                update={
                    "path": name.replace("_", "/"),
                    "payload": FileRef.to(transaction.put_bytes(text.encode())),
                    "size_bytes": len(text),
                }
            )
            for name, text in sorted(texts.items())
        )
        named = {"name": kernel} if kernel else {}
        kernels = (plain.kernels[0].model_copy(update={"capture": capture, **named}),)
        made = plain.model_copy(update={"parents": (capture,), "kernels": kernels, "files": files})
        return transaction.publish(dump(made), "reproducer", [capture.digest]), made


@pytest.mark.parametrize("force", [False, True])
def test_nothing_is_written_through_a_linked_folder_of_a_project(store, tmp_path, force):
    project, elsewhere = tmp_path / "project", tmp_path / "elsewhere"
    check_out(store, *publish_project(store, Makefile="all:", deps_own="1"), project, force=False)
    (project / "deps").rename(elsewhere)
    (project / "deps").symlink_to(elsewhere)
    makefile = (project / "Makefile").read_text()
    with pytest.raises(Refused, match="deps is a symbolic link"):
        check_out(store, *publish_project(store, Makefile="none:", deps_new="2"), project, force=force)
    assert [path.name for path in elsewhere.iterdir()] == ["own"]
    assert (project / "Makefile").read_text() == makefile


def test_edit_of_a_file_that_another_kernels_project_does_not_have_is_refused(store, tmp_path):
    """A project of sources, and then one of instructions."""
    project = tmp_path / "project"
    first = publish_project(store, "first", **{"kernel.cpp": "1", "deps_own.h": "1"})
    other = publish_project(store, "other", **{"kernel.s": "2"})
    check_out(store, *first, project, force=False)
    (project / "deps/own.h").write_text("mine")
    with pytest.raises(UsageError, match=r"holds edits of first: deps/own\.h$"):
        check_out(store, *other, project, force=False)
    assert sorted(path.name for path in project.iterdir()) == ["capture", "deps", "kernel.cpp"]
    assert check_out(store, *other, project, force=True).replaced == "first"
    assert (project / "deps/own.h").read_text() == "mine"
    assert not (project / "kernel.cpp").exists()


def test_half_a_project_is_named_and_another_run_completes_it(store, tmp_path):
    project = tmp_path / "project"
    digest, made = publish_project(store, Makefile="all:")
    check_out(store, digest, made, project, force=False)
    assert find_project(str(project)).reproducer == digest
    for entry in (project / "capture/store/artifacts").iterdir():  # as on a disk that is full after the files
        entry.unlink()
    for name in (project, project / "capture"):
        with pytest.raises(ArtifactError, match="is not complete") as refused:
            find_project(str(name))
        assert f"run kc-generate again with --output {project}" in refused.value.hint
    check_out(store, digest, made, project, force=False)
    assert find_project(str(project)).reproducer == digest


def test_a_folder_whose_name_begins_with_a_tilde_is_no_home(store, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = Path("~nobody-of-this-name")
    digest, made = publish_project(store, Makefile="all:")
    check_out(store, digest, made, folder, force=False)
    project = find_project(f"./{folder}")
    assert Store.open(project.store, create=False).has(digest)
