"""Flags in artifacts of anybody's making: kc-store import brings them."""

from types import SimpleNamespace

import pytest

from kerncap_stages.generate.hip_project import HipProject
from kerncap_stages.generate.nvcc_project import NvccProject
from kerncap_stages.manifests.source import CompileCommand


@pytest.mark.parametrize(
    ("kind", "compiler", "hostile"),
    [
        (HipProject, "hipcc", ("-fplugin=/x.so", "-B/x")),
        (NvccProject, "clang++", ("-fplugin=/x.so", "-B/x")),
        (NvccProject, "nvcc", ("-Xcompiler=-fdump-go-spec=/x", '-I"\\";id;\\""', "-sanitize=;id")),
    ],
)
def test_flags_of_an_artifact_are_judged_again(kind, compiler, hostile):
    kept = ("-I/w/include", "-O3", '-DA="x y"', "-std=c++17")
    command = CompileCommand(
        translation_unit="/w/k.cu", directory="/w", arguments=(compiler, *kept, *hostile)
    )
    flags = (
        kind()
        .build(None, dict.fromkeys(("/w/k.cu", "/w/include/a.h"), ""), command)
        .files["compile_flags.rsp"]
        .decode()
    )
    # The response file of nvcc names the copies of include folders.
    words = [line.strip('"') for line in flags.splitlines()]
    assert words[1:4:2] == ["-O3", "-std=c++17"]
    assert words[len(kept) :] == ["-I."]  # the user's own headers


@pytest.mark.parametrize(
    ("symbol", "is_alone"),
    [("_Z5scalePf", True), ("a'b", False), ("a b", False), ("$(x)`", False), ("a\nb", False), ("", False)],
)
def test_a_symbol_that_make_or_a_shell_would_interpret_is_not_compiled_alone(symbol, is_alone):
    capture = SimpleNamespace(kernel=SimpleNamespace(mangled_name=symbol))
    command = CompileCommand(translation_unit="/w/k.cu", directory="/w", arguments=("nvcc", "-O3"))
    built = NvccProject().build(capture, {"/w/k.cu": ""}, command, one_kernel=True)
    assert ("compile_kernel.py" in built.files) == is_alone
    assert built.values["one_kernel"] == (symbol if is_alone else None)
