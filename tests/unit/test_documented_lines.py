"""Words of the front that depend on the kind of project."""

from __future__ import annotations

import pytest

from kerncap_stages.api.lines import edited_and_built


@pytest.mark.parametrize(
    ("files", "named"),
    [
        (["kernel_variant.cpp", "vfs.yaml"], ("kernel_variant.cpp", "optimized.hsaco")),
        (["capture/kernel.cubin", "kernel_variant.cu"], ("kernel_variant.cu", "optimized.cubin")),
        (["capture/kernel.cubin", "kernel_variant.cu", "vfs.yaml"], ("kernel_variant.cu", "optimized.ptx")),
    ],
    ids=["hip", "nvcc", "clang"],
)
def test_the_edited_file_and_what_is_built_are_those_of_the_project(files, named):
    assert edited_and_built([f"/somewhere/{name}" for name in files]) == named
