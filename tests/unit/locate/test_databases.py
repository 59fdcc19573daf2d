"""Which file tells how a project is built, where the user names it."""

import pytest

from kerncap_stages.errors import UsageError
from kerncap_stages.locate.databases import find_named_database


def test_a_file_is_taken_as_it_is_named(tmp_path):
    given = tmp_path / "commands.json"
    given.write_text("[]")
    assert find_named_database(given) == given


def test_of_a_folder_its_own_file_is_taken(tmp_path):
    (tmp_path / "build.ninja").touch()
    assert find_named_database(tmp_path) == tmp_path / "build.ninja"
    (tmp_path / "compile_commands.json").write_text("[]")
    assert find_named_database(tmp_path) == tmp_path / "compile_commands.json"


def test_what_is_not_there_is_told_with_a_next_step(tmp_path):
    with pytest.raises(UsageError, match="contains neither compile_commands") as empty:
        find_named_database(tmp_path)
    assert "CMAKE_EXPORT_COMPILE_COMMANDS" in (empty.value.hint or "")
    with pytest.raises(UsageError, match="no such file") as absent:
        find_named_database(tmp_path / "absent")
    assert absent.value.hint
