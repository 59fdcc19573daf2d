"""Which code object of a project is judged and which is timed, and that both are named."""

from __future__ import annotations

import pytest

from kerncap_stages.project.built import explain_judged, explain_timed
from kerncap_stages.project.variants import find_built_variant, find_timed_variant


@pytest.fixture
def project(tmp_path):
    def write(**contents):
        for stem, text in contents.items():
            (tmp_path / f"{stem}.hsaco").write_text(text)
        return tmp_path

    return write


def explain(folder):
    judged, timed = find_built_variant(folder), find_timed_variant(folder)
    return (
        explain_judged(folder, judged).replace(f"{folder}/", ""),
        explain_timed(folder, timed).replace(f"{folder}/", ""),
    )


@pytest.mark.parametrize("contents", [{"optimized": "a"}, {"optimized": "a", "candidate": "a"}])
def test_the_same_code_is_named_and_nothing_more(project, contents):
    judged, timed = explain(project(**contents))
    assert (judged, timed) == (f"judging {min(contents)}.hsaco", "timing optimized.hsaco")


def test_of_two_code_objects_each_note_names_the_other(project):
    assert explain(project(optimized="a", candidate="b")) == (
        "judging candidate.hsaco; `make bench` times optimized.hsaco, which is another code object",
        "timing optimized.hsaco; `kc-validate .` judges candidate.hsaco, which is another code object",
    )


def test_make_in_a_triton_project_times_the_candidate(project):
    folder = project(optimized="a", candidate="b")
    (folder / "reproducer.py").touch()
    assert explain(folder) == ("judging candidate.hsaco", "timing candidate.hsaco")


def test_what_is_not_built_is_not_named(project):
    folder = project(candidate="b")
    assert find_timed_variant(folder) is None
    assert explain_judged(folder, folder / "candidate.hsaco") == f"judging {folder}/candidate.hsaco"
