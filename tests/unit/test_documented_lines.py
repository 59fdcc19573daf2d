"""Words of the front that depend on the kind of project."""

from __future__ import annotations

import pytest

from kerncap_stages.api.lines import edited_and_built


@pytest.mark.parametrize(
    ("files", "ptxas", "named"),
    [
        (["kernel_variant.cpp", "vfs.yaml"], None, ("kernel_variant.cpp", "optimized.hsaco")),
        (["kernel_variant.cu"], None, ("kernel_variant.cu", "optimized.cubin")),
        (["kernel_variant.cu", "vfs.yaml"], "/bin/ptxas", ("kernel_variant.cu", "optimized.cubin")),
        (["kernel_variant.cu", "vfs.yaml"], None, ("kernel_variant.cu", "optimized.ptx")),
    ],
    ids=["hip", "nvcc", "clang", "clang without ptxas"],
)
def test_the_edited_file_and_what_is_built_are_those_of_the_project(files, ptxas, named, monkeypatch):
    monkeypatch.setattr("kerncap_stages.source.nvcc.find_cuda_tool", lambda _name: ptxas)
    assert edited_and_built([f"/somewhere/{name}" for name in files]) == named
