from pathlib import Path

import pytest

from kerncap_stages.source.compile_commands import CompileCommand
from kerncap_stages.source.nvcc_flags import nvcc_flags, unsafe_nvcc_flags


def command(*words, directory=Path("/w")):
    return CompileCommand(directory / "k.cu", directory, ("nvcc", *words, "k.cu"))


@pytest.mark.parametrize(
    "words",
    [
        ("-c",),
        ("-dc", "-rdc=true", "-rdc", "true"),
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
    assert nvcc_flags(command("-O3", *words, "-DA")) == ("-O3", "-DA")
    assert unsafe_nvcc_flags(command(*words)) == ()


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
    assert nvcc_flags(command(*words)) == words


def test_paths_become_absolute_and_short_in_every_spelling():
    words = ("-Ia", "-I", "b", "-I=c,../d", "--include-path", "e", "-isystem=f", "--system-include", "g")
    words += ("-Xcompiler=-isystem,i", "-Xcompiler", "-Ij")
    assert nvcc_flags(command(*words)) == (
        *("-I/w/a", "-I/w/b", "-I/w/c", "-I/d", "-I/w/e", "-isystem", "/w/f", "-isystem", "/w/g"),
        *("-Xcompiler=-isystem,/w/i", "-Xcompiler=-I/w/j"),
    )  # fmt: skip


def test_forced_includes_are_searched_for_unless_the_build_folder_holds_them(tmp_path):
    (tmp_path / "here.h").touch()
    words = ("--pre-include", "here.h,found.h", "-Xcompiler=-include,found.h")
    here = str(tmp_path / "here.h")
    assert nvcc_flags(command(*words, directory=tmp_path)) == (
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
    ],
)
def test_what_a_shell_would_read_or_runs_code_is_left_out_and_told(words):
    assert nvcc_flags(command("-O3", *words, "-DA")) == ("-O3", "-DA")
    assert unsafe_nvcc_flags(command("-O3", *words, "-DA")) == (" ".join(words),)


def test_defines_of_the_user_come_last_and_are_read_by_no_shell():
    given = ["A=1", "B=$(id)", 'C="x y"']
    assert nvcc_flags(command("-O3"), given) == ("-O3", "-DA=1", '-DC="x y"')
    assert unsafe_nvcc_flags(command("-O3"), given) == ("-DB=$(id)",)


def test_a_host_compiler_is_kept_if_it_is_called_like_one():
    assert nvcc_flags(command("-ccbin", "/usr/bin/g++-12")) == ("-ccbin=/usr/bin/g++-12",)
