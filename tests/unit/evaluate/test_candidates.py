"""Which variants are meant: paths, folders, lines; names are whatever a path may be."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from kerncap_stages.errors import UsageError
from kerncap_stages.evaluate.candidates import Candidate, list_candidates, read_line


def test_a_folder_gives_its_variants_in_order(tmp_path):
    for name in ("b.hsaco", "a.hip", "a.shape.json", "notes.txt", "c.cubin", "built.sha256"):
        (tmp_path / name).touch()
    (tmp_path / "inner.hsaco").mkdir()
    found = list(list_candidates([str(tmp_path)], ["-DN=1"]))
    assert [each.path.name for each in found] == ["a.hip", "b.hsaco", "c.cubin"]
    assert [each.flags for each in found] == [("-DN=1",), (), ()]


def test_what_cannot_be_read_in_a_folder_is_not_passed_over(tmp_path):
    (tmp_path / "gone.hip").symlink_to(tmp_path / "nowhere.hip")
    os.mkfifo(tmp_path / "pipe.hsaco")
    (tmp_path / "inner.hip").mkdir()
    assert [each.path.name for each in list_candidates([str(tmp_path)])] == ["gone.hip", "pipe.hsaco"]


@pytest.mark.parametrize("name", ["a b.hsaco", "line\nfeed.hsaco", "-.hsaco", "\udcff.co", "{}.hip"])
def test_any_name_is_a_variant(tmp_path, name):
    path = tmp_path / name
    path.touch()
    assert [each.path for each in list_candidates([str(path)])] == [path]
    assert [each.path for each in list_candidates([str(tmp_path)])] == [path]
    line = json.dumps({"path": str(path)})
    assert read_line(line + "\n") == Candidate(str(path), path)


def test_what_is_not_there_or_empty_is_wrong_usage(tmp_path):
    with pytest.raises(UsageError, match="no such file"):
        list(list_candidates([str(tmp_path / "none.hsaco")]))
    with pytest.raises(UsageError, match="holds no variant"):
        list(list_candidates([str(tmp_path)]))


def test_a_line_is_a_path_or_an_object():
    assert read_line("\n") is None
    assert read_line("  \n") is None
    plain = read_line("some folder/a.hip\n", ["-O2"])
    assert plain is not None
    assert (plain.name, str(plain.path), plain.flags) == ("some folder/a.hip", "some folder/a.hip", ("-O2",))
    full = read_line('{"name": "tile 8", "path": "a.hip", "flags": ["-DT=8", "-DS=a b"]}\n', ["-O2"])
    assert full is not None
    assert (full.name, full.flags) == ("tile 8", ("-O2", "-DT=8", "-DS=a b"))
    assert read_line('{"path": "a.hip", "flags": "-DT=8 -DS=\'a b\'"}').flags == ("-DT=8", "-DS=a b")


@pytest.mark.parametrize(
    "line",
    [
        "{", "{}", '{"path": 5}', '{"path": ""}', '{"path": "a", "more": 1}', '{"path": "a.hip", "name": 1}',
        '{"path": "a.hip", "flags": [1]}', '{"path": "a.hip", "flags": "\'"}', '{"path": "a\\u0000"}',
        '{"path": "a.hsaco", "flags": ["-O2"]}', "{" * 5000, "a\0b",
        '{"path": "a\\ud800.hsaco"}', '{"path": "a", "name": "\\ud800"}',
        '{"path": "a.hip", "flags": ["\\ud800"]}',
    ],
)  # fmt: skip
def test_other_lines_are_refused(line):
    refused = read_line(line)
    assert refused is not None
    assert refused.problem
    assert line.startswith(refused.name)


@pytest.mark.parametrize("line", ["a" * 5000, '{"path": "' + "a" * 5000 + '"}'])
def test_a_line_that_is_too_long_for_a_path_is_shown_in_part(line):
    made = read_line(line + "\n")
    assert "no system has such a path" in made.problem
    assert len(made.name) < 1000


def test_lines_of_other_systems_name_the_same_files():
    assert read_line("a b.hsaco\r\n").path == Path("a b.hsaco")
    assert read_line("a b.hsaco\r").path == Path("a b.hsaco\r")
    assert read_line('{"path": "a.hsaco\\r"}\r\n').path == Path("a.hsaco\r")
    assert read_line("\r\n") is None
