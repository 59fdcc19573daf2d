from pathlib import Path

import pytest

from kerncap_stages.compilers.compile_commands import CompileCommand
from kerncap_stages.compilers.flags import find_unsafe_flags, keep_shaping_flags


def command(*words, directory=Path("/w")):
    return CompileCommand(directory / "k.hip", directory, ("hipcc", *words, "k.hip"))


@pytest.mark.parametrize(
    "words",
    [
        ("-c",),
        ("-o", "k.o"),
        ("-ok.o",),
        ("-MD", "-MF", "k.d", "-MT", "k.o"),
        ("-Wp,-MMD,k.d",),
        ("-fgpu-rdc",),
        ("--offload-arch=gfx90a", "--offload-arch", "gfx942", "--offload-arch=native"),
        ("--offload-arch=gfx90a:xnack-,gfx942",),
        ("-x", "hip"),
        ("-xhip",),
        ("-lfoo", "-L/x", "-Wl,-rpath,/x", "-Xlinker", "-z", "other.o", "/usr/lib/libx.so"),
        ("--save-temps=obj", "-ftime-trace", "-gsplit-dwarf"),
        ("-Xclang", "-dependency-file", "-Xclang", "x"),
        ("-Xclang=-dependency-file", "-Xclang=x"),
        ("-dependency-dot", "x"),
        ("-Winvalid-pch", "-Xclang", "-include-pch", "-Xclang", "/x.pch", "-include-pch", "/x.pch"),
        ("-Xarch_host", "-fplugin=/x.so"),
        ("-Xlinker", "--load-pass-plugin=/x.so"),
        ("--",),
    ],
)
def test_outputs_targets_and_the_hosts_link_are_left_out(words):
    assert keep_shaping_flags(command("-O3", *words, "-DA")) == ("-O3", "-DA")
    assert find_unsafe_flags(command(*words)) == ()


@pytest.mark.parametrize(
    "words",
    [
        ("-fplugin=/x.so",),
        ("-fpass-plugin=/x.so",),
        ("-fplugin-arg-x-y",),
        ("-fmodules",),
        ("-fno-integrated-as",),
        ("-Xclang", "-load", "-Xclang", "/x.so"),
        ("-Xclang", "-mllvm", "-Xclang", "-load=/x.so"),
        ("-Xclang", "-add-plugin", "-Xclang", "x"),
        ("-mllvm", "-load=/x.so"),
        ("-B", "/x"),
        ("-B/x",),
        ("--config", "/x.cfg"),
        ("--config=/x.cfg",),
        ("-fuse-ld=/x",),
        ("--ld-path=/x",),
        ("-specs=/x",),
        ("-wrapper", "/x"),
        ("--offload-arch-tool=/x",),
        ("-fthin-link-bitcode=/x",),
        ("-module-dependency-dir", "/x"),
    ],
)
def test_flags_that_run_or_load_code_are_left_out_and_told(words):
    assert keep_shaping_flags(command("-O3", *words, "-DA")) == ("-O3", "-DA")
    assert find_unsafe_flags(command("-O3", *words, "-DA")) == (" ".join(words),)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("-Xclang=-load", "-Xclang=/x.so"), ["-Xclang -load -Xclang /x.so"]),
        (("-Xpreprocessor", "-load", "-Xpreprocessor", "/x.so"), ["-Xclang -load -Xclang /x.so"]),
        (("-Wp,-load,/x.so",), ["-Xclang -load -Xclang /x.so"]),
        (("-Wp,-fplugin=/x.so",), ["-Xclang -fplugin=/x.so"]),
        (("-Xclang", "-load", "-O2", "-Xclang", "/x.so"), ["-Xclang -load", "-Xclang /x.so"]),
        (("-mllvm=-load=/x.so",), ["-mllvm -load=/x.so"]),
        (("-mllvm", "--load", "-mllvm", "/x.so"), ["-mllvm --load -mllvm /x.so"]),
        (("-mllvm", "-amdgpu-x", "-mllvm", "/x.so"), ["-mllvm -amdgpu-x -mllvm /x.so"]),
        (("-mllvm", "-pass-remarks-output=Makefile"), ["-mllvm -pass-remarks-output=Makefile"]),
        (("-Xclang", "-mllvm", "-O2"), ["-Xclang -mllvm"]),
        (("-Xclang", "-plugin-arg-x", "-Xclang", "y"), ["-Xclang -plugin-arg-x -Xclang y"]),
        (("-Xclang", "-emit-pch"), ["-Xclang -emit-pch"]),
        (("-Xarch_device", "-fplugin=/x.so"), ["-Xarch_device -fplugin=/x.so"]),
        (
            ("-Xarch_gfx90a", "-Xclang", "-Xarch_gfx90a", "-load"),
            ["-Xarch_gfx90a -Xclang", "-Xarch_gfx90a -load"],
        ),
        (("-Xoffload-linker-amdgcn-amd-amdhsa", "--load-pass-plugin=/x.so"), None),
        (("--driver-mode=cl", "-clang:-fplugin=/x.so"), ["--driver-mode=cl", "-clang:-fplugin=/x.so"]),
        (("@absent.rsp",), ["@absent.rsp"]),
        (("-D", "@absent.rsp"), ["-D @absent.rsp"]),
        (("-Xclang", "@absent.rsp"), ["-Xclang @absent.rsp"]),
    ],
)
def test_no_other_spelling_of_such_a_flag_is_passed_on(words, told):
    kept = [word for word in keep_shaping_flags(command("-O3", *words, "-DA")) if word != "-O2"]
    assert kept == ["-O3", "-DA"]
    assert list(find_unsafe_flags(command(*words))) == (told or [" ".join(words)])


def test_what_shapes_the_code_stays():
    words = (
        "-std=c++20",
        "-munsafe-fp-atomics",
        "-mllvm",
        "-amdgpu-early-inline-all=true",
        "-D",
        "A=1",
        "-UB",
    )
    words += (
        "-Xarch_device",
        "-fno-inline",
        "-Xclang",
        "-fallow-half-arguments-and-returns",
        "-mwavefrontsize64",
    )
    words += ("-Xclang", "-target-feature", "-Xclang", "+wavefrontsize64", "-Xclang", "-O2")
    words += (
        "-mllvm",
        "-amdgpu-sched-strategy=max-ilp",
        "-mllvm",
        "-unroll-threshold=1000",
        "-mllvm",
        "-inline-threshold",
        "-mllvm",
        "9",
    )
    words += ("-Xarch_device", "-mllvm", "-Xarch_device", "-amdgpu-function-calls=false")
    assert keep_shaping_flags(command(*words)) == words


def test_paths_become_absolute_in_every_spelling():
    words = ("-Ia", "-I", "b", "-isystemc", "-isystem", "../d", "--sysroot=f", "-iquoteg")
    words += ("-Xclang", "-isystem", "-Xclang", "h", "-Wp,-Ii")
    assert keep_shaping_flags(command(*words)) == (
        *("-I/w/a", "-I", "/w/b", "-isystem/w/c", "-isystem", "/d"),
        *("--sysroot=/w/f", "-iquote/w/g", "-Xclang", "-isystem", "-Xclang", "/w/h"),
        *("-Xclang", "-I/w/i"),
    )


def test_forced_includes_are_searched_for_unless_the_build_folder_holds_them(tmp_path):
    (tmp_path / "here.h").touch()
    words = (
        "-include",
        "here.h",
        "-include",
        "found.h",
        "-includehere.h",
        "-Xclang",
        "-imacros",
        "-Xclang",
        "found.h",
    )
    here = str(tmp_path / "here.h")
    assert keep_shaping_flags(command(*words, directory=tmp_path)) == (
        *("-include", here, "-include", "found.h", f"-include{here}"),
        *("-Xclang", "-imacros", "-Xclang", "found.h"),
    )


def test_defines_come_last_whatever_they_hold():
    hostile = ["A=$(touch pwned)", "B='x'", 'C="', "D=a\nb"]
    assert keep_shaping_flags(command("-O3"), hostile) == ("-O3", *(f"-D{text}" for text in hostile))
