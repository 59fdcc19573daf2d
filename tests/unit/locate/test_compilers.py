import shutil
from pathlib import Path

import pytest

from kerncap_stages.compilers import installed as compilers
from kerncap_stages.compilers.installed import Compiler, find_compiler, is_compiler_name, is_hipcc
from kerncap_stages.compilers.llvm_tools import find_llvm_tool
from kerncap_stages.errors import DeviceError
from kerncap_stages.machine.run_tool import run_tool


@pytest.mark.parametrize(
    "name",
    ["hipcc", "/opt/rocm/bin/hipcc", "hipcc.bin", "clang++", "amdclang++", "/x y/clang-18"],
)
def test_compilers_are_known_by_their_names(name):
    assert is_compiler_name(name)


@pytest.mark.parametrize("name", ["sh", "g++", "nvcc", "evil-clang++.sh", "clang++;id", "x/", "hipcc $(id)"])
def test_anything_else_is_not_run(name):
    assert not is_compiler_name(name)
    with pytest.raises(DeviceError, match="does not have the name of a compiler"):
        find_compiler(name)


def test_what_the_user_names_is_taken(tmp_path):
    tool = tmp_path / "my-compiler"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    assert find_compiler(str(tool), trusted=True).path == str(tool)
    with pytest.raises(DeviceError, match="no compiler"):
        find_compiler(str(tmp_path / "absent"), trusted=True)


def test_hipcc_becomes_the_clang_that_hipcc_is_told_to_use(tmp_path, monkeypatch):
    clang = tmp_path / "clang++"
    clang.write_text("#!/bin/sh\n")
    clang.chmod(0o755)
    monkeypatch.setenv("HIP_CLANG_PATH", str(tmp_path))
    monkeypatch.setenv("HIPCC_COMPILE_FLAGS_APPEND", "--offload-arch=gfx1100 -DX='a b'")
    compilers._find_clang.cache_clear()
    try:
        found = find_compiler("hipcc")
    finally:
        compilers._find_clang.cache_clear()
    assert found == Compiler(str(clang), ("-O3", "-DX=a b"))
    assert not is_hipcc(found.path)


@pytest.fixture
def clang(tmp_path, monkeypatch):
    """A clang that hipcc is told to use, and no memory of another one."""
    path = tmp_path / "clang++"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    monkeypatch.setenv("HIP_CLANG_PATH", str(tmp_path))
    compilers._find_clang.cache_clear()
    yield path
    compilers._find_clang.cache_clear()


@pytest.mark.usefixtures("clang")
def test_targets_and_outputs_of_the_environment_are_ours_to_name(monkeypatch):
    monkeypatch.setenv("HIPCC_COMPILE_FLAGS_APPEND", "--offload-arch=gfx1100 -DA -o elsewhere -save-temps")
    assert find_compiler("hipcc").lead == ("-O3", "-DA")
    monkeypatch.setenv("HIPCC_COMPILE_FLAGS_APPEND", "-DX='a")
    with pytest.raises(DeviceError, match="HIPCC_COMPILE_FLAGS_APPEND"):
        find_compiler("hipcc")


def test_the_newest_of_several_versions_on_path_is_taken(tmp_path, monkeypatch):
    for name in ("llvm-mc-9", "llvm-mc-21", "llvm-mc-old", "llvm-mc-99"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755 if name != "llvm-mc-99" else 0o644)
    monkeypatch.setenv("PATH", f"{tmp_path / 'absent'}:{tmp_path}")
    assert compilers.find_newest_version("llvm-mc") == str(tmp_path / "llvm-mc-21")
    assert compilers.find_newest_version("llvm-objdump") is None


@pytest.mark.skipif(shutil.which("hipcc") is None, reason="needs hipcc: run it in the ROCm root")
def test_a_rocm_path_that_leads_nowhere_hides_no_tool(tmp_path, monkeypatch):
    monkeypatch.setenv("ROCM_PATH", str(tmp_path / "absent"))
    compilers._find_clang.cache_clear()
    try:
        assert Path(find_llvm_tool("llvm-objdump")).name.startswith("llvm-objdump")
        assert Path(find_llvm_tool("llvm-mc")).name.startswith("llvm-mc")
    finally:
        compilers._find_clang.cache_clear()


def test_nothing_in_the_environment_makes_another_command_of_ours(monkeypatch):
    monkeypatch.setenv("CCC_OVERRIDE_OPTIONS", "+-DOURS")
    monkeypatch.setenv("ROCM_PATH", "/nowhere/at/all")
    said = run_tool(["env"]).stdout
    assert "CCC_OVERRIDE_OPTIONS" not in said
    assert "ROCM_PATH" not in said
    monkeypatch.setenv("ROCM_PATH", "/usr")
    assert "ROCM_PATH=/usr" in run_tool(["env"]).stdout


def test_the_default_of_hipcc_gives_way_to_a_flag():
    tool = Compiler("clang++", ("-O3",))
    device = ["clang++", "-x", "hip", "--offload-arch=gfx90a", "--offload-device-only"]
    assert tool.make_command("gfx90a", ["-DA"], "k.hip") == [*device, "-O3", "-DA", "k.hip"]
    assert tool.make_command("gfx90a", ["-O1"], "k.hip") == [*device, "-O1", "k.hip"]


@pytest.mark.skipif(shutil.which("hipcc") is None, reason="needs hipcc: run it in the ROCm root")
def test_the_installed_hipcc_has_a_clang():
    assert "clang" in find_compiler("hipcc").path
