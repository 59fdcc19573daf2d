"""Which file a line table leads to, where trees have moved or been copied."""

from __future__ import annotations

import os
import shutil

import pytest

from kerncap_stages.code.kernel_names import parse_kernel_name
from kerncap_stages.compilers.consulted import Consulted
from kerncap_stages.compilers.line_tables import LineTables
from kerncap_stages.locate.search import find_by_line_tables, find_told_line

KERNEL = "__global__ void axpy(float* x) { *x = 1; }\n"


@pytest.fixture
def built(tmp_path):
    """The file that was compiled."""
    return written(tmp_path / "built/src/axpy.cu", KERNEL)


@pytest.fixture
def edited(tmp_path):
    """The same file in another checkout, where a line has come in."""
    return written(tmp_path / "edited/src/axpy.cu", "#include <stdio.h>\n\n\n" + KERNEL)


def written(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def located(path, *roots, **options):
    """What both ways of reading a line table name."""
    tables, consulted = LineTables((path,), (path, 1)), Consulted()
    named = find_by_line_tables(tables, roots, parse_kernel_name("axpy(float*)"), consulted, **options)
    told = find_told_line(tables, roots, consulted, **options)
    assert named.path == told.path
    return named.path, named.line


def test_the_checkout_that_is_named_counts_not_the_one_that_was_built(built, edited):
    assert located(built, edited.parents[1]) == (edited, 4)
    assert located(built, edited.parent) == (edited, 4)


def test_a_file_of_the_same_name_is_not_another_checkouts(built, tmp_path):
    other = written(tmp_path / "app/axpy.cu", "#define MAKE\nint main() {}\n")
    tables, consulted = LineTables((built,), (built, 1)), Consulted()
    assert find_told_line(tables, (other.parent,), consulted).path == built
    built.unlink()
    assert find_told_line(tables, (other.parent,), consulted).path == other


def test_a_guessed_folder_does_not_replace_the_file_that_was_built(built, edited):
    assert located(built, edited.parents[1], guessed=True) == (built, 1)


def test_a_file_below_a_named_folder_is_its_own_place(built, tmp_path):
    written(tmp_path / "built/old/src/axpy.cu", "\n" + KERNEL)
    assert located(built, tmp_path / "built/old", tmp_path / "built") == (built, 1)


def test_a_folder_that_is_removed_during_the_search_is_left_out(built, tmp_path, monkeypatch):
    """os.walk has listed it, and it is gone: a build beside us, or below /proc."""
    written(tmp_path / "built/gone/axpy.cu", KERNEL)
    walk = os.walk

    def walk_that_is_overtaken(root, **options):
        for found in walk(root, **options):
            if found[0].endswith("gone"):
                shutil.rmtree(found[0])
            yield found

    monkeypatch.setattr(os, "walk", walk_that_is_overtaken)
    assert Consulted().list_sources(tmp_path) == [built]


def test_a_folder_reached_through_a_link_is_the_same_folder(built, tmp_path):
    written(tmp_path / "built/old/src/axpy.cu", "\n" + KERNEL)
    (tmp_path / "link").symlink_to(tmp_path / "built")
    path = tmp_path / "link" / built.relative_to(tmp_path / "built")
    assert located(path, tmp_path / "built/old", tmp_path / "built") == (path, 1)


def test_a_file_that_the_named_folder_lacks_is_taken_where_it_was_built(built, tmp_path):
    (tmp_path / "empty").mkdir()
    consulted = Consulted()
    tables, name = LineTables((built,), (built, 1)), parse_kernel_name("axpy(float*)")
    assert find_by_line_tables(tables, (tmp_path / "empty",), name, consulted).path == built
    # Once it is there, the answer is another.
    assert consulted.digests[tmp_path / "empty/src/axpy.cu"] is None
