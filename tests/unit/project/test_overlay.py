import json

import pytest

from kerncap_stages.errors import Refused
from kerncap_stages.project.overlay import overlay_text, place_files, response_text, unit_text


def test_the_first_file_is_the_editable_one_and_the_rest_keep_their_tree():
    placed = place_files(["/a/src/k.hip", "/a/include/x/h.hpp", "/a/include/y/h.hpp"])
    assert placed == {
        "/a/src/k.hip": "kernel_variant.cpp",
        "/a/include/x/h.hpp": "deps/x/h.hpp",
        "/a/include/y/h.hpp": "deps/y/h.hpp",
    }


def test_names_that_become_equal_stay_apart():
    placed = place_files(["/k.hip", "/a/h 1.hpp", "/a/h$1.hpp", "/a/h_1.hpp"])
    assert len(set(placed.values())) == 4


def test_a_file_never_stands_where_a_folder_is_needed():
    placed = place_files(["/k.hip", "/a/b", "/a/b?/c", "/a/b_/d"])
    names = set(placed.values())
    assert not any(other.startswith(f"{name}/") for name in names for other in names)


@pytest.mark.parametrize(
    "name", ["$(touch x)", "a\nall: evil", "`id`", "..", "-flag", ".hidden", "a;b", "a b"]
)
def test_hostile_names_become_harmless(name):
    placed = place_files(["/k.hip", f"/a/{name}/h.hpp", "/a/z/h.hpp"])
    for path in placed.values():
        assert all(char.isalnum() or char in "._+-/" for char in path)
        assert not any(part.startswith((".", "-")) for part in path.split("/"))


def test_overlay_points_each_original_at_its_copy():
    overlay = json.loads(overlay_text({'/a/"q"/k.hip': "kernel_variant.cpp"}))
    assert overlay["overlay-relative"] == "true"
    assert overlay["roots"] == [
        {"type": "file", "name": '/a/"q"/k.hip', "external-contents": "kernel_variant.cpp"}
    ]


def test_paths_that_the_formats_cannot_hold_are_refused():
    with pytest.raises(Refused, match="UTF-8"):
        overlay_text({"/a/\udcff": "x"})
    with pytest.raises(Refused, match="include"):
        unit_text('/a/"b.hip')


def test_response_file_quotes_every_flag():
    assert response_text(['-DA="x y"', "-DB=\\", "-DC=$(id)"]) == '"-DA=\\"x y\\""\n"-DB=\\\\"\n"-DC=$(id)"\n'
