"""The options of a search for a source."""

import executables
import pytest

from kerncap_stages.errors import UsageError
from kerncap_stages.locate.options import check_macros, check_source_folders


@pytest.mark.parametrize("define", ["A", "_a1=2", "A=", "A=B=C", "F(x,y)=x+y", "$a$", "\u00e9t\u00e9=1"])
def test_what_a_compiler_defines_is_a_macro(define):
    check_macros(["BEFORE=1", define])


@pytest.mark.parametrize("define", ["1x=2", "a-b", "a b=1", "-DA=1", "", "=1", "F(x=1", "+"])
def test_what_no_compiler_defines_is_refused_by_name(define):
    with pytest.raises(UsageError, match="-D"):
        check_macros(["BEFORE=1", define])


def test_kc_locate_names_the_word_that_is_no_macro(store):
    capture = executables.publish_capture(store)
    done = executables.run("kc-locate", "-D", "FINE", "-D", "1x=2", capture, store=store.root)
    assert done.returncode == 2
    assert done.stderr.startswith("kc-locate: error: -D 1x=2: '1x' is no name of a macro\n")


@pytest.mark.parametrize("command", ["kc-locate", "kc-generate"])
def test_a_file_that_is_no_source_is_refused_with_its_folder(store, tmp_path, command):
    file = tmp_path / "src/kernel.txt"
    file.parent.mkdir()
    file.write_text("__global__ void k() {}\n")
    capture = executables.publish_capture(store)
    output = ("--output", tmp_path / "project") if command == "kc-generate" else ()
    done = executables.run(command, *output, "--source-dir", file, capture, store=store.root)
    assert (done.returncode, done.stdout) == (2, "")
    told = f"{command}: error: --source-dir {file}: it is a file, but no source of C++, HIP, CUDA or Python\n"
    assert done.stderr.startswith(told)
    assert f"--source-dir {file.parent}" in done.stderr.removeprefix(told)


def test_a_folder_that_is_absent_is_refused(store, tmp_path):
    capture = executables.publish_capture(store)
    done = executables.run("kc-locate", "--source-dir", tmp_path / "absent", capture, store=store.root)
    assert done.returncode == 2
    assert f"no such source folder or file: {tmp_path / 'absent'}" in done.stderr


def test_a_source_file_may_be_named(store, tmp_path):
    capture = executables.publish_capture(store)
    (tmp_path / "kernel.hip").write_text("")
    done = executables.run("kc-locate", "--source-dir", tmp_path / "kernel.hip", capture, store=store.root)
    assert done.returncode == 0, done.stderr


def test_a_file_may_be_named_where_ptx_is_taken_from_files(tmp_path):
    file = tmp_path / "kernel.ptx"
    file.touch()
    check_source_folders([file, tmp_path], may_be_programs=True)
    with pytest.raises(UsageError, match="no such source folder"):
        check_source_folders([tmp_path / "absent"], may_be_programs=True)
