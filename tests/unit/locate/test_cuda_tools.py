"""Where CUDA's programs are looked for."""

from __future__ import annotations

import sys

import pytest

from kerncap_stages.compilers.cuda_tools import find_cuda_tool
from kerncap_stages.compilers.nvcc import find_nvcc
from kerncap_stages.errors import DeviceError


def program(folder, name):
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def bare(tmp_path, monkeypatch):
    """Neither a toolkit nor packages, and a Python of its own first on PATH."""
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.delenv("CUDA_PATH", raising=False)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.setattr(sys, "path", [])
    program(tmp_path / "venv/bin", "python3")
    monkeypatch.setenv("PATH", str(tmp_path / "venv/bin"))
    return tmp_path


def test_path_then_toolkit_then_python_packages(bare, monkeypatch):
    packages = bare / "venv/lib/python3.13/site-packages"
    assert find_cuda_tool("kc-tool") is None
    of_triton = program(packages / "triton/backends/nvidia/bin", "kc-tool")
    assert find_cuda_tool("kc-tool") == of_triton
    of_nvidia = program(packages / "nvidia/cu13/bin", "kc-tool")
    assert find_cuda_tool("kc-tool") == of_nvidia
    of_toolkit = program(bare / "toolkit/bin", "kc-tool")
    monkeypatch.setenv("CUDA_HOME", str(bare / "toolkit"))
    assert find_cuda_tool("kc-tool") == of_toolkit
    on_path = program(bare / "venv/bin", "kc-tool")
    assert find_cuda_tool("kc-tool") == on_path


def test_packages_beside_our_own_python_are_found(bare, monkeypatch):
    monkeypatch.setattr(sys, "path", ["", str(bare / "ours")])
    monkeypatch.chdir(bare)
    program(bare / "nvidia/cu13/bin", "kc-tool")  # of the current folder: not to be run
    assert find_cuda_tool("kc-tool") is None
    ours = program(bare / "ours/nvidia/cu13/bin", "kc-tool")
    assert find_cuda_tool("kc-tool") == ours


def test_a_trusted_compiler_is_never_replaced(bare):
    program(bare / "venv/lib/python3.13/site-packages/nvidia/cu13/bin", "nvcc")
    assert find_nvcc("/gone/nvcc").path.startswith(str(bare))
    with pytest.raises(DeviceError, match="no compiler /gone/nvcc"):
        find_nvcc("/gone/nvcc", trusted=True)
