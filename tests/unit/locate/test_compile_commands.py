import json
import os

import pytest

from kerncap_stages.compilers.compile_commands import (
    CompileCommand,
    find_commands_for,
    find_database,
    load_database,
    replace_own_compiler,
    split_response_file,
)
from kerncap_stages.compilers.consulted import Consulted, is_unchanged
from kerncap_stages.compilers.flags import keep_shaping_flags
from kerncap_stages.errors import UsageError


def database(tmp_path, **entry):
    path = tmp_path / "compile_commands.json"
    path.write_text(json.dumps([{"directory": str(tmp_path), "file": "k.hip", **entry}]))
    return load_database(path)[0]


def test_flags_keep_what_shapes_the_code_and_drop_outputs(tmp_path):
    command = database(
        tmp_path,
        command="ccache /usr/bin/hipcc -DA=1 -Iinclude -isystem sys -O3 -std=c++17 -fgpu-rdc "
        "--offload-arch=gfx90a,gfx942 --offload-arch=native -MD -MF k.d -MT k.o -x hip -o k.o -c k.hip",
    )
    assert command.compiler == "/usr/bin/hipcc"
    assert keep_shaping_flags(command, ["B", "C=2"]) == (
        "-DA=1",
        f"-I{tmp_path}/include",
        "-isystem",
        f"{tmp_path}/sys",
        "-O3",
        "-std=c++17",
        "-DB",
        "-DC=2",
    )


def test_expands_response_files_and_quoted_defines(tmp_path):
    (tmp_path / "flags.rsp").write_text('-DNAME="a b" \'-DQ="x"\'')
    command = database(tmp_path, command="hipcc @flags.rsp -c k.hip")
    assert keep_shaping_flags(command) == ("-DNAME=a b", '-DQ="x"')


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("-O3\n -DA=1\t-DB ", ["-O3", "-DA=1", "-DB"]),
        (r'-DA=\"x\" "-DB=a b" ' + r"'-DC=\"c\"'", ['-DA="x"', "-DB=a b", '-DC="c"']),
        (r'-DA="a\ b" -DB=a\ b "" -DC', ["-DA=a b", "-DB=a b", "", "-DC"]),
        (r'"-I/a\\b" # no comment', ["-I/a\\b", "#", "no", "comment"]),
        ("-DA='open", ["-DA=open"]),
    ],
)
def test_response_files_are_read_as_compilers_read_them(text, words):
    assert list(split_response_file(text)) == words


def test_relative_directories_are_taken_from_the_database(tmp_path):
    (tmp_path / "build").mkdir()
    command = database(
        tmp_path, directory="build", file="../k.hip", arguments=["hipcc", "-I../inc", "-c", "../k.hip"]
    )
    assert command.file == tmp_path / "k.hip"
    assert keep_shaping_flags(command) == (f"-I{tmp_path}/inc",)


def test_a_file_built_twice_has_two_commands(tmp_path):
    entries = [
        {"directory": str(tmp_path), "file": "k.hip", "arguments": ["hipcc", f"-DN={n}", "k.hip"]}
        for n in (1, 2)
    ]
    (tmp_path / "compile_commands.json").write_text(json.dumps(entries))
    commands = load_database(tmp_path / "compile_commands.json")
    assert len(find_commands_for(tmp_path / "k.hip", commands)) == 2


def test_the_database_is_found_in_build_folders_of_ancestors(tmp_path):
    (tmp_path / "build-release").mkdir()
    (tmp_path / "src/deep").mkdir(parents=True)
    path = tmp_path / "build-release/compile_commands.json"
    path.write_text("[]")
    assert find_database(tmp_path / "src/deep") == path


def test_no_database_is_taken_from_folders_that_anybody_may_fill(tmp_path):
    (tmp_path / "shared/me/src").mkdir(parents=True)
    path = tmp_path / "shared/compile_commands.json"
    path.write_text("[]")
    assert find_database(tmp_path / "shared/me/src") == path
    (tmp_path / "shared").chmod(0o1777)
    assert find_database(tmp_path / "shared/me/src") is None
    assert find_database(tmp_path / "shared") == path  # named by the user


def test_no_database_of_another_user_is_taken(tmp_path, monkeypatch):
    (tmp_path / "src").mkdir()
    path = tmp_path / "src/compile_commands.json"
    path.write_text("[]")
    assert find_database(tmp_path / "src") == path
    real_stat = type(path).stat

    def stat(self, **options):
        fields = list(real_stat(self, **options))
        fields[4] = 54321 if self == path else fields[4]
        return os.stat_result(fields)

    monkeypatch.setattr(type(path), "stat", stat)
    assert find_database(tmp_path / "src") is None


def test_a_compiler_of_the_build_gives_way_to_that_of_path(tmp_path, monkeypatch):
    for folder in ("bin", "build", "src", "elsewhere"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "nvcc").touch(mode=0o755)
    (tmp_path / "build/link").symlink_to(tmp_path / "bin")
    (tmp_path / "elsewhere/nvcc-13").symlink_to(tmp_path / "build/nvcc")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    expected = {
        "nvcc": ("nvcc", None),
        "./nvcc": ("nvcc", "./nvcc"),
        str(tmp_path / "src/nvcc"): ("nvcc", str(tmp_path / "src/nvcc")),
        "../elsewhere/nvcc": (str(tmp_path / "elsewhere/nvcc"), None),
        "../elsewhere/nvcc-13": ("nvcc-13", "../elsewhere/nvcc-13"),  # leads into the build
        "link/nvcc": (str(tmp_path / "build/link/nvcc"), None),  # leads to the one of PATH
    }
    for compiler, (run, own) in expected.items():
        command = CompileCommand(tmp_path / "src/k.cu", tmp_path / "build", (compiler, "-O3"))
        made = replace_own_compiler(command)
        assert (made.arguments, made.own_compiler) == ((run, "-O3"), own), compiler


@pytest.mark.parametrize("text", ["", "{}", "[1]", '[{"file": "k"}]', "[{"])
def test_refuses_what_is_no_database(tmp_path, text):
    path = tmp_path / "compile_commands.json"
    path.write_text(text)
    with pytest.raises(UsageError, match="not a compilation database"):
        load_database(path)


def test_what_may_never_end_or_has_no_bottom_is_no_database(tmp_path):
    path = tmp_path / "compile_commands.json"
    os.mkfifo(path)
    assert find_database(tmp_path) is None
    assert find_database(tmp_path, Consulted().exists) is None
    with pytest.raises(UsageError, match="not a plain file"):
        load_database(path)
    path.unlink()
    path.symlink_to("/dev/zero")
    assert find_database(tmp_path, Consulted().exists) is None
    with pytest.raises(UsageError, match="not a plain file"):
        load_database(path)
    path.unlink()
    path.write_text("[" * 200_000)
    with pytest.raises(UsageError, match="not a compilation database"):
        load_database(path)


@pytest.mark.parametrize("place", ["app", "app/build", "out", "build-old"])
def test_a_database_that_is_made_later_is_a_change(tmp_path, place):
    (tmp_path / "app/src").mkdir(parents=True)
    (tmp_path / "build-old").mkdir()
    consulted = Consulted()
    assert find_database(tmp_path / "app/src", consulted.exists) is None
    assert all(is_unchanged(path, digest) for path, digest in consulted.digests.items())
    (tmp_path / place).mkdir(exist_ok=True)
    (tmp_path / place / "compile_commands.json").write_text("[]")
    assert not all(is_unchanged(path, digest) for path, digest in consulted.digests.items())
