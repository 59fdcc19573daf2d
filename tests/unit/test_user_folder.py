"""Nothing is written through a link that lies in a user's folder."""

from __future__ import annotations

import stat

import pytest

from kerncap_stages.errors import Refused
from kerncap_stages.machine.user_folder import remove_file, require_no_links, write_file


def names(folder):
    return [path.name for path in folder.iterdir()]


@pytest.fixture
def elsewhere(tmp_path):
    """A folder with a file that is not ours."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "file").write_text("mine")
    return folder


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "folder"
    place.mkdir()
    return place


def test_a_file_is_written_with_the_folders_on_its_way(folder):
    write_file(folder, "a/b/file", b"one")
    write_file(folder, "a/b/file", b"two", executable=True)
    assert (folder / "a/b/file").read_bytes() == b"two"
    assert (folder / "a/b/file").stat().st_mode & stat.S_IXUSR
    assert names(folder / "a/b") == ["file"]


def test_a_linked_file_is_replaced_and_what_it_leads_to_stays(folder, elsewhere):
    (folder / "index.html").symlink_to(elsewhere / "file")
    write_file(folder, "index.html", b"page")
    assert (folder / "index.html").read_bytes() == b"page"
    assert not (folder / "index.html").is_symlink()
    assert (elsewhere / "file").read_text() == "mine"


@pytest.mark.parametrize("name", ["deps/file", "deps/new/file"])
def test_a_linked_folder_on_the_way_is_refused_by_name(folder, elsewhere, name):
    (folder / "deps").symlink_to(elsewhere)
    for refused in (
        lambda: write_file(folder, name, b"ours"),
        lambda: remove_file(folder, name),
        lambda: require_no_links(folder, ["other", name]),
    ):
        with pytest.raises(Refused, match="deps is a symbolic link"):
            refused()
    assert names(elsewhere) == ["file"]
    assert (elsewhere / "file").read_text() == "mine"


@pytest.mark.parametrize("name", ["../elsewhere/file", "/etc/hostname", "a//b", "", "."])
def test_what_is_no_path_below_the_folder_is_refused(folder, elsewhere, name):
    for refused in (lambda: write_file(folder, name, b"ours"), lambda: remove_file(folder, name)):
        with pytest.raises(Refused):
            refused()
    assert (elsewhere / "file").read_text() == "mine"


def test_the_folder_itself_may_be_a_link(folder, elsewhere):
    (folder / "linked").symlink_to(elsewhere)
    write_file(folder / "linked", "file", b"ours")
    assert (elsewhere / "file").read_bytes() == b"ours"


def test_what_is_not_there_yet_is_no_link(folder):
    require_no_links(folder, ["a/b/file"])
    assert names(folder) == []


def test_a_file_that_cannot_be_put_in_place_leaves_nothing_behind(folder):
    (folder / "taken").mkdir()
    with pytest.raises(IsADirectoryError):
        write_file(folder, "taken", b"file")
    assert names(folder) == ["taken"]
