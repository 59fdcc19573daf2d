"""Which of a program's options NVRTC is called with, and how its script reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kerncap_stages.compilers.compile_commands import CompileCommand
from kerncap_stages.compilers.nvrtc import find_unsafe_nvrtc_flags, keep_shaping_nvrtc_flags
from kerncap_stages.compilers.nvrtc_script import read_words


def command(*options):
    return CompileCommand(Path("/x/a.cu"), Path("/x"), ("libnvrtc.so.13", *options, "-c", "/x/a.cu"))


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (("--std", "c++17"), ["--std=c++17"]),
        (("-maxrregcount", "64", "-default-device"), ["-maxrregcount=64", "-default-device"]),
        (("--use_fast_math", "-DN=3", "-I/y"), ["--use_fast_math", "-DN=3", "-I/y"]),
        (("-include", "/y/first.h"), ["-include", "/y/first.h"]),
        (("--gpu-architecture=compute_90",), []),
    ],
)
def test_options_keep_their_values(given, kept):
    assert list(keep_shaping_nvrtc_flags(command(*given))) == kept
    assert find_unsafe_nvrtc_flags(command(*given)) == ()


def test_the_script_reads_nvccs_words(tmp_path):
    file = tmp_path / "flags.rsp"
    file.write_text('"--std=c++17"\n"-DTEXT=a b"\n"-isystem"\n"/y z"\n')
    words = ["-x", "cu", "-cubin", "-arch=sm_90", "--options-file", str(file), "-include", "/y/f.h"]
    options, said = read_words([*words, "-o", "out", "a.cu"])
    assert options == ["--std=c++17", "-DTEXT=a b", "-I/y z", "--pre-include=/y/f.h"]
    assert said == {"form": "CUBIN", "target": "sm_90", "output": "out", "source": "a.cu"}
