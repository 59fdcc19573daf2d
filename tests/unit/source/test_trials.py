"""What is said of a unit whose compiler cannot be asked."""

from __future__ import annotations

from kerncap_stages.source.compile_commands import CompileCommand
from kerncap_stages.source.cuda import CudaToolchain
from kerncap_stages.source.trials import Wanted, compares_code, makes_same_code


def test_without_its_compiler_a_unit_is_neither_the_same_nor_another(tmp_path):
    wanted = Wanted(CudaToolchain(), "_Z1kv", "k", "sm_90", b"", (), None)
    command = CompileCommand(tmp_path / "k.cu", tmp_path, (str(tmp_path / "clang++"), "-c", "k.cu"))
    assert compares_code(command, wanted) is None
    assert makes_same_code(command, wanted) is False
