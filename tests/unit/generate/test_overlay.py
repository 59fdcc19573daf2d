import json

import pytest

from kerncap_stages.generate.overlay import (
    make_overlay_files,
    make_overlay_text,
    make_renaming,
    make_response_text,
    place_files,
)


def test_the_first_file_is_the_editable_one_and_the_rest_keep_their_tree():
    placed = place_files(["/a/src/k.hip", "/a/include/x/h.hpp", "/a/include/y/h.hpp"])
    assert placed == {
        "/a/src/k.hip": "kernel_variant.cpp",
        "/a/include/x/h.hpp": "deps/x/h.hpp",
        "/a/include/y/h.hpp": "deps/y/h.hpp",
    }


def test_two_headers_of_one_name_keep_their_folders():
    placed = place_files(["/src/a/kernel.cu", "/src/a/common.cuh", "/src/b/common.cuh"])
    assert placed == {
        "/src/a/kernel.cu": "kernel_variant.cpp",
        "/src/a/common.cuh": "deps/a/common.cuh",
        "/src/b/common.cuh": "deps/b/common.cuh",
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
    overlay = json.loads(make_overlay_text({"/a/'q'/k.hip": "kernel_variant.cpp"}))
    assert overlay["overlay-relative"] == "true"
    assert overlay["roots"] == [
        {"type": "file", "name": "/a/'q'/k.hip", "external-contents": "kernel_variant.cpp"}
    ]


@pytest.mark.parametrize("name", ['a"b', "a\nb", "a\rb", "a\udcffb"])
def test_what_cannot_be_written_has_another_name_for_the_compiler(name):
    originals = [f"/w/{name}/k.hip", "/w/a_b/h.hpp", f"/w/{name}/{name}.hpp"]
    rename = make_renaming(originals)
    assert rename(originals[0]) == "/w/a_b_/k.hip"
    assert rename(originals[1]) == originals[1]
    assert rename(f"-I/w/{name}/include") == "-I/w/a_b_/include"
    assert rename(f"-DNAME={name}") == f"-DNAME={name}"
    files = make_overlay_files(place_files(originals), [(originals[0], [f"-I/w/{name}"])])
    assert files["translation_unit.cpp"] == b'#include "/w/a_b_/k.hip"\n'
    assert files["compile_flags.rsp"] == b'"-I/w/a_b_"\n"-I."\n'
    told = [root["name"] for root in json.loads(files["vfs.yaml"])["roots"]]
    assert sorted(told) == ["/w/a_b/h.hpp", "/w/a_b_/a_b.hpp", "/w/a_b_/k.hip"]


def test_response_file_quotes_every_flag():
    assert (
        make_response_text(['-DA="x y"', "-DB=\\", "-DC=$(id)"])
        == '"-DA=\\"x y\\""\n"-DB=\\\\"\n"-DC=$(id)"\n'
    )
