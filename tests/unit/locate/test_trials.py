"""What is said of a unit whose compiler cannot be asked."""

from __future__ import annotations

import pytest
from manifest_examples import capture as example_capture

from kerncap_stages.compilers.compile_commands import CompileCommand
from kerncap_stages.compilers.cuda import CudaToolchain
from kerncap_stages.compilers.hip import HipToolchain
from kerncap_stages.locate.trials import compare_code, makes_same_code
from kerncap_stages.locate.wanted import Wanted


def test_without_its_compiler_a_unit_is_neither_the_same_nor_another(tmp_path):
    wanted = Wanted(CudaToolchain(), "_Z1kv", "k", "sm_90", b"", (), None)
    command = CompileCommand(tmp_path / "k.cu", tmp_path, (str(tmp_path / "clang++"), "-c", "k.cu"))
    assert compare_code(command, wanted) is None
    assert makes_same_code(command, wanted) is False


@pytest.mark.parametrize(
    ("isa", "target"),
    [
        ("amdgcn-amd-amdhsa--gfx90a", "gfx90a"),
        ("amdgcn-amd-amdhsa--gfx942:sramecc+:xnack-", "gfx942:sramecc+:xnack-"),
        ("amdgpu9.0a-amd-amdhsa-unknown-gfx90a:xnack+", "gfx90a:xnack+"),
        ("unknown", "gfx90a:sramecc+:xnack-"),
    ],
)
def test_a_unit_is_compiled_for_what_the_code_object_was(isa, target):
    """Not for the device, whose features the program's build may have left open."""
    capture = example_capture()
    code = capture.kernel.code_object.model_copy(update={"isa": isa})
    kernel = capture.kernel.model_copy(update={"code_object": code})
    assert HipToolchain().choose_target(capture.model_copy(update={"kernel": kernel})) == target
