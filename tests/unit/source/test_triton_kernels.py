"""Which Python functions are taken for Triton kernels."""

from __future__ import annotations

import pytest

from kerncap_stages.source.consulted import Consulted
from kerncap_stages.source.search import is_triton_kernel


@pytest.mark.parametrize(
    ("decorator", "is_triton"),
    [
        ("triton.jit", True),
        ("jit", True),
        ("triton.jit(debug=True)", True),
        ("cuda.jit", False),
        ("numba.jit", False),
    ],
)
def test_only_functions_that_triton_compiles(tmp_path, decorator, is_triton):
    (tmp_path / "kernels.py").write_text(f"@{decorator}\ndef axpy(x, y):\n    pass\n")
    assert is_triton_kernel((tmp_path,), "axpy", Consulted()) == is_triton
