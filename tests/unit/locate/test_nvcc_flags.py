from dataclasses import replace
from pathlib import Path

import pytest

from kerncap_stages.compilers.compile_commands import CompileCommand
from kerncap_stages.compilers.nvcc_flags import find_unsafe_nvcc_flags, keep_shaping_nvcc_flags


def command(*words, directory=Path("/w")):
    return CompileCommand(directory / "k.cu", directory, ("nvcc", *words, "k.cu"))


@pytest.mark.parametrize(
    "words",
    [
        ("-c",),
        ("-rdc=false", "-dlink"),
        ("-o", "k.o"),
        ("-MD", "-MT", "k.o", "-MF", "k.o.d"),
        ("--generate-code=arch=compute_90,code=[compute_90,sm_90]",),
        ("-gencode", "arch=compute_90,code=sm_90", "-arch=sm_90", "-arch", "sm_80", "--gpu-code=sm_90"),
        ("-x", "cu", "--x=cu"),
        ("-lfoo", "-L/x", "-Wl,-rpath,/x", "-Xlinker", "-z", "other.o"),
        ("--keep", "--keep-dir", "/x", "-t", "4", "--threads=4", "--dryrun", "-Xnvlink", "-v"),
        ("-cudart=shared", "-cudadevrt", "none"),
    ],
)
def test_outputs_targets_and_the_hosts_link_are_left_out(words):
    assert keep_shaping_nvcc_flags(command("-O3", *words, "-DA")) == ("-O3", "-DA")
    assert find_unsafe_nvcc_flags(command(*words)) == ()


def test_what_shapes_device_code_stays():
    words = (
        "-std=c++17",
        "-std",
        "c++20",
        "--use_fast_math",
        "-lineinfo",
        "-maxrregcount=64",
        "--expt-relaxed-constexpr",
    )
    words += ("-Xptxas=-O2,-v", "-Xcompiler=-fPIC,-Wall", "-G", "-ftz=true", '-DA="1.0"', "-UB", "-fPIC")
    words += ("-Xptxas=-dlcm=ca,--maxrregcount=32,--warn-on-spills", "-Xcudafe=--diag_suppress=177,550")
    words += ("-march=native", "-Wno-unused", "-Werror=cross-execution-space-call", "--extended-lambda")
    words += (
        "-DT(x)=std::vector<x>",
        "-DV=(A && B)",
        "-Xcompiler=-march=x86-64-v3,-fvisibility=hidden,-DQ=1.0f",
    )
    assert keep_shaping_nvcc_flags(command(*words)) == words


def test_paths_become_absolute_and_short_in_every_spelling():
    words = ("-Ia", "-I", "b", "-I=c,../d", "--include-path", "e", "-isystem=f", "--system-include", "g")
    words += ("-Xcompiler=-isystem,i", "-Xcompiler", "-Ij")
    assert keep_shaping_nvcc_flags(command(*words)) == (
        *("-I/w/a", "-I/w/b", "-I/w/c", "-I/d", "-I/w/e", "-isystem", "/w/f", "-isystem", "/w/g"),
        *("-Xcompiler=-isystem,/w/i", "-Xcompiler=-I/w/j"),
    )  # fmt: skip


def test_forced_includes_are_searched_for_unless_the_build_folder_holds_them(tmp_path):
    (tmp_path / "here.h").touch()
    words = ("--pre-include", "here.h,found.h", "-Xcompiler=-include,found.h")
    here = str(tmp_path / "here.h")
    assert keep_shaping_nvcc_flags(command(*words, directory=tmp_path)) == (
        *("-include", here, "-include", "found.h"),
        "-Xcompiler=-include,found.h",
    )


@pytest.mark.parametrize(
    "words",
    [
        ("-DX=$(touch pwned)",),
        ("-DX=`touch pwned`",),
        ("-D", "X=${HOME}"),
        ("-I/x$(id)",),
        ("-DX=a\nb",),
        ("-Xcompiler=-DZ=1;id",),
        ("-Xcompiler", '-DZ="q"'),
        ("-Xcompiler", "-fplugin=/x.so"),
        ("-Xcompiler=-O2,-B/x",),
        ("-Xcompiler=@/x",),
        ("-Xptxas", "-o,/x"),
        ("-ccbin", "/x/evil"),
        ("-ccbin=/x/g++;id",),
        ("--libdevice-directory=/x",),
        ("-ldir", "/x"),
        ("-fplugin=/x.so",),
        ("-fabc;id",),
        ("-sanitize=>x",),
        ("-frandom-seed", '";id;"'),
        ("-std=c++17;id",),
        ("-O", "3>x"),
        ("-I", 'a"b'),
        ("-isystem=a\\b",),
        ("-include", "a`b"),
        ("--pre-include=a;b",),
        ("--pre-include=@/x",),
        ("-include", "a.h,@x"),
        ("-Xcompiler=-include,@/x",),
        ('-DX="a;b"',),
        ("-DX=a\\b",),
        ("-DX;id",),
        ("-Xptxas=--options-file=x",),
        ("-Xptxas=-O3,--output-file=x",),
        ("-Xcicc=--list=x",),
        ("-Xcudafe=--error_output=x",),
        ("-Xcompiler=-fdump-go-spec=x",),
        ("-Xcompiler=-fopt-info-all=x",),
        ("-Xcompiler=-fprofile-generate",),
        ("-Xcompiler=-I,a b",),
        ("-fdump-tree-all",),
        ("-specs=x",),
        ("--unheard-of",),
    ],
)
def test_what_a_shell_would_read_or_runs_code_is_left_out_and_told(words):
    assert keep_shaping_nvcc_flags(command("-O3", *words, "-DA")) == ("-O3", "-DA")
    assert find_unsafe_nvcc_flags(command("-O3", *words, "-DA")) == (" ".join(words),)


@pytest.mark.parametrize("words", [("-Ia",), ("-isystem", "a"), ("-Xcompiler=-Ia",), ("-ccbin", "./g++")])
def test_the_folder_of_the_build_is_judged_with_the_paths_in_it(words):
    own = command("-O3", *words, directory=Path('/w/";touch x;"'))
    assert keep_shaping_nvcc_flags(own) == ("-O3",)
    assert find_unsafe_nvcc_flags(own) == (" ".join(words),)


def test_a_space_is_possible_only_where_nvcc_puts_quotes():
    own = command("-Ia", "-Xcompiler=-Ia", directory=Path("/w/my build"))
    assert keep_shaping_nvcc_flags(own) == ("-I/w/my build/a",)
    assert find_unsafe_nvcc_flags(own) == ("-Xcompiler=-Ia",)


def test_defines_of_the_user_come_last_and_are_read_by_no_shell():
    given = ["A=1", "B=$(id)", 'C="x y"']
    assert keep_shaping_nvcc_flags(command("-O3"), given) == ("-O3", "-DA=1", '-DC="x y"')
    assert find_unsafe_nvcc_flags(command("-O3"), given) == ("-DB=$(id)",)


def test_a_host_compiler_of_the_build_folder_is_not_run(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    for folder in ("bin", "build", "elsewhere"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "g++").touch(mode=0o755)
    kept = {
        "g++-12": "g++-12",
        str(tmp_path / "bin/g++"): str(tmp_path / "bin/g++"),
        "../elsewhere/g++": str(tmp_path / "elsewhere/g++"),
        "./g++": None,
        str(tmp_path / "build/g++"): None,
        "../build/g++": None,
        "/x/evil": None,
    }
    for path, expected in kept.items():
        own = command("-ccbin", path, directory=tmp_path / "build")
        assert keep_shaping_nvcc_flags(own) == ((f"-ccbin={expected}",) if expected else ()), path
    with_compiler = replace(
        command("-ccbin", "../elsewhere/g++", directory=tmp_path / "build"), compiler_is_given=True
    )
    assert keep_shaping_nvcc_flags(with_compiler) == ()
    assert find_unsafe_nvcc_flags(with_compiler) == ("-ccbin ../elsewhere/g++",)
    of_path = replace(command("-ccbin", str(tmp_path / "bin/g++")), compiler_is_given=True)
    assert keep_shaping_nvcc_flags(of_path) == (f"-ccbin={tmp_path}/bin/g++",)


def test_a_host_compiler_is_kept_if_it_is_called_like_one():
    assert keep_shaping_nvcc_flags(command("-ccbin", "/usr/bin/g++-12")) == ("-ccbin=/usr/bin/g++-12",)


@pytest.mark.parametrize(
    ("words", "separate"),
    [
        (("-dc",), True),
        (("-rdc=true",), True),
        (("-rdc", "true"), True),
        (("--relocatable-device-code=true", "-c"), True),
        (("-rdc=true", "-rdc=false"), False),
        (("-c",), False),
    ],
)
def test_separate_compilation_is_kept_as_one_word(words, separate):
    assert keep_shaping_nvcc_flags(command("-O3", *words)) == (("-rdc=true", "-O3") if separate else ("-O3",))
