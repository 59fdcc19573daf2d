import pytest

from kerncap_stages.errors import Refused
from kerncap_stages.generate.mirror import Mirror, make_nvcc_response_text

FILES = ["/home/me/app/src/k/scale.cuh", "/home/me/app/src/main.cu", "/home/me/lib/include/lib/x.cuh"]


def test_files_keep_their_places_to_one_another():
    mirror = Mirror.place(FILES, [])
    assert mirror.placed == {
        FILES[0]: "deps/app/src/k/scale.cuh",
        FILES[1]: "deps/app/src/main.cu",
        FILES[2]: "deps/lib/include/lib/x.cuh",
    }
    assert mirror.make_way_up(FILES[0]) == "../../../../"


def test_include_folders_become_those_of_the_copy_and_others_go():
    flags = ["-I/home/me/lib/include", "-isystem", "/home/me/app", "-I/opt/other", "-isystem", "/opt/x"]
    flags += ["-include", "/home/me/app/src/main.cu", "-include", "vector", "-DA=/home/me", "-O3"]
    flags += ["-Xcompiler=-iquote,/home/me/app/src,-Wall,-I/opt/y", "-Xcompiler=-I/opt/z"]
    assert Mirror.place(FILES, flags).relocate(flags) == [
        *("-Ideps/lib/include", "-include", "deps/app/src/main.cu"),
        *("-include", "vector", "-DA=/home/me", "-O3", "-Xcompiler=-iquote,deps/app/src,-Wall"),
        "-Ideps/app",  # searched behind all others, as a system folder is
    ]


def test_system_folders_are_searched_last_as_gcc_does():
    # nvcc puts words of -Xcompiler before its own folders; GCC ignores -I of a system folder.
    flags = ["-Xcompiler=-isystem,/home/me/app,-Wall", "-I/home/me/lib", "-isystem", "/home/me/lib/include"]
    flags += ["-Xcompiler=-isystem,/home/me/app/src", "-I/home/me/app", "-isystem", "/home/me/app"]
    assert Mirror.place(FILES, flags).relocate(flags) == [
        *("-Xcompiler=-Wall", "-Ideps/lib", "-Ideps/app", "-Ideps/app/src", "-Ideps/lib/include"),
    ]


@pytest.mark.parametrize(
    "flags",
    [["-isystem"], ["-isystem", "/opt/x"], ["-Xcompiler=-isystem"], ["-Xcompiler=-isystem,/x"], ["-include"]],
)
def test_system_folders_that_are_elsewhere_or_missing_leave_nothing(flags):
    assert Mirror.place(FILES, flags).relocate(flags) == []


def test_a_used_include_folder_above_all_files_is_part_of_the_copy():
    # #include <src/x.cuh> with -I/home/me/app
    mirror = Mirror.place(["/home/me/app/src/k.cu", "/home/me/app/src/x.cuh"], ["-I/home/me/app", "-I/home"])
    assert mirror.placed["/home/me/app/src/x.cuh"] == "deps/me/app/src/x.cuh"
    assert mirror.relocate(["-I/home/me/app", "-I/home"]) == ["-Ideps/me/app", "-Ideps"]


@pytest.mark.parametrize(
    "name", ["a b.cu", "$(id).cu", "`id`.cu", "a;b.cu", "a'b.cu", "a\nb.cu", "a#b.cu", "ä.cu"]
)
def test_names_that_mean_something_to_make_or_a_shell_are_refused(name):
    with pytest.raises(Refused, match="has characters that a project for nvcc does not allow"):
        Mirror.place(["/w/src/main.cu", f"/w/src/{name}"], [])


def test_what_is_above_the_copy_may_be_called_anything():
    assert Mirror.place(["/w/a b/k.cu"], ["-I/w/a b"]).placed == {"/w/a b/k.cu": "deps/k.cu"}


def test_flags_are_quoted_as_nvcc_reads_them():
    # Checked against nvcc 13.0 --dryrun: it takes off one layer of quotes, then reads each word as usual.
    assert make_nvcc_response_text(['-DV="1.0"', r"-DA=1\,2", "-DW=a b", r"-DQ=\"x\"", "-O3"]) == (
        '"-DV=\\\\\\"1.0\\\\\\""\n"-DA=1\\\\,2"\n"-DW=a b"\n"-DQ=\\\\\\"x\\\\\\""\n"-O3"\n'
    )
