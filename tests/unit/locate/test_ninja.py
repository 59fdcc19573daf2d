"""Compile commands out of build.ninja: as CMake 3.25 writes it, and files that are not taken."""

from __future__ import annotations

import pytest

from kerncap_stages.compilers.consulted import Consulted
from kerncap_stages.compilers.ninja import read_ninja_commands
from kerncap_stages.errors import UsageError
from kerncap_stages.locate.databases import read_database
from kerncap_stages.locate.options import Options

BUILD = """ninja_required_version = 1.5
CONFIGURATION = Release
include CMakeFiles/rules.ninja
cmake_ninja_workdir = {build}/

build cmake_object_order_depends_target_app: phony || CMakeFiles/app.dir
build CMakeFiles/app.dir/k.cu.o: CUDA_COMPILER__app_Release {source}/k.cu || CMakeFiles/app.dir
  DEFINES = -DNAME="\\"a b\\"" -DWIDTH=4
  DEP_FILE = CMakeFiles/app.dir/k.cu.o.d
  FLAGS = -O3 -DNDEBUG --generate-code=arch=compute_90,code=[compute_90,sm_90] --use_fast_math
  INCLUDES = -I{source}/include
  OBJECT_DIR = CMakeFiles/app.dir
build CMakeFiles/app.dir/big.cu.o: CUDA_LISTED__app_Release {source}/big.cu
  FLAGS = -O3
  INCLUDES = -I{source}/include
  RSP_FILE = CMakeFiles/app.dir/big.cu.o.rsp
build app: CUDA_EXECUTABLE_LINKER__app_Release CMakeFiles/app.dir/k.cu.o
  PRE_LINK = :
  POST_BUILD = :
build k.ptx | ${{cmake_ninja_workdir}}k.ptx: CUSTOM_COMMAND {source}/k.cu
  COMMAND = cd {build} && nvcc -ptx {source}/k.cu -o k.ptx
build again: CUSTOM_COMMAND {source}/k.cu
  COMMAND = echo "never ends
build all: phony {source}/k.cu
build build.ninja: RERUN_CMAKE | {source}/CMakeLists.txt CMakeCache.txt
"""
RULES = """rule CUDA_COMPILER__app_Release
  depfile = $DEP_FILE
  deps = gcc
  command = /usr/bin/nvcc $DEFINES $INCLUDES $FLAGS -MD -MT $out -MF $DEP_FILE -x cu -c $in -o $out
rule CUDA_LISTED__app_Release
  rspfile = $RSP_FILE
  rspfile_content = $INCLUDES
  command = /usr/bin/nvcc @$RSP_FILE $FLAGS -c $in -o $out
rule CUDA_EXECUTABLE_LINKER__app_Release
  command = $PRE_LINK && /usr/bin/g++ $in -o $out && $POST_BUILD
rule CUSTOM_COMMAND
  command = $COMMAND
rule RERUN_CMAKE
  command = /usr/bin/cmake --regenerate-during-build
  generator = 1
"""


@pytest.fixture
def tree(tmp_path):
    """A source folder with CMake's build folder in it."""
    build = tmp_path / "build"
    (build / "CMakeFiles").mkdir(parents=True)
    (build / "CMakeFiles/rules.ninja").write_text(RULES)
    (build / "build.ninja").write_text(BUILD.format(source=tmp_path, build=build))
    return tmp_path


def told(tree, name="build.ninja"):
    return read_ninja_commands(tree / "build" / name, Consulted())


def test_cmakes_commands_are_those_that_compile_with_the_variables_of_each_build(tree):
    plain, listed = told(tree)
    assert (plain.file, plain.directory) == (tree / "k.cu", tree / "build")
    assert plain.arguments[:5] == (
        "/usr/bin/nvcc", '-DNAME="a b"', "-DWIDTH=4", f"-I{tree}/include", "-O3",
    )  # fmt: skip
    assert "--use_fast_math" in plain.arguments
    # The response file is not there before a build: ninja puts in what it would hold.
    assert listed.arguments[:3] == ("/usr/bin/nvcc", f"-I{tree}/include", "-O3")


def test_what_was_read_is_what_the_answer_depends_on(tree):
    consulted = Consulted()
    database = read_database(None, (tree,), Options((tree,)), consulted)
    assert database.path == tree / "build/build.ninja"
    assert {tree / "build/build.ninja", tree / "build/CMakeFiles/rules.ninja"} <= set(consulted.digests)


def test_a_configuration_of_several_is_read_by_name(tree):
    """As of CMake's multi-config generator: each has a file that includes others, which include the rules."""
    build = tree / "build"
    text = (
        (build / "build.ninja").read_text().replace("CMakeFiles/rules.ninja", "CMakeFiles/impl-Release.ninja")
    )
    (build / "build-Release.ninja").write_text(text)
    (build / "CMakeFiles/impl-Release.ninja").write_text(
        "subninja CMakeFiles/none.ninja\ninclude CMakeFiles/common.ninja\n"
    )
    (build / "CMakeFiles/common.ninja").write_text("include CMakeFiles/rules.ninja\n")
    (build / "CMakeFiles/none.ninja").write_text("")
    (build / "build.ninja").write_text("include CMakeFiles/missing.ninja\n")
    assert [command.file.name for command in told(tree, "build-Release.ninja")] == ["k.cu", "big.cu"]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("/dev/zero", "other files than plain ones in its folder: /dev/zero"),
        ("../elsewhere.ninja", "other files than plain ones"),
        ("$where/rules.ninja", "other files than plain ones"),
        ("CMakeFiles/ru$\nles.ninja", "other files than plain ones"),
        ("CMakeFiles/gone.ninja", r"includes CMakeFiles/gone.ninja, which cannot be read: it is missing"),
        ("CMakeFiles/device.ninja", "not a plain file"),
        ("build.ninja", "ninja cannot read"),  # itself, without an end
    ],
)
def test_what_it_may_not_include_is_told_with_the_next_step(tree, words, reason):
    build = tree / "build"
    (build / "CMakeFiles/device.ninja").symlink_to("/dev/zero")
    (build / "build.ninja").write_text(f"where = CMakeFiles\ninclude {words}\n")
    with pytest.raises(UsageError, match=reason) as caught:
        told(tree)
    assert f"cmake -DCMAKE_EXPORT_COMPILE_COMMANDS=ON {build}" in caught.value.hint
    database = read_database(None, (tree,), Options((tree,)), Consulted())
    assert database.path is None
    assert str(build / "build.ninja") in database.explain_no_command(build / "k.cu")


def test_a_build_that_compiles_nothing_is_told(tree):
    (tree / "build/build.ninja").write_text("rule make\n  command = make\nbuild all: make k.cu.in\n")
    with pytest.raises(UsageError, match="no command compiles a source file"):
        told(tree)
