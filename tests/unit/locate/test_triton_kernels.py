"""Which Python functions are taken for Triton kernels."""

from __future__ import annotations

import pytest

from kerncap_stages.code.kernel_names import parse_kernel_name
from kerncap_stages.compilers.consulted import Consulted
from kerncap_stages.compilers.line_tables import LineTables
from kerncap_stages.locate.search import find_by_line_tables, find_told_line, is_triton_kernel


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


@pytest.mark.parametrize("suffix", [".py", ".cu"])
def test_line_numbers_of_python_lead_to_no_definition(tmp_path, suffix):
    path = tmp_path / f"attention{suffix}"
    path.write_text("import triton\n\n@triton.jit\ndef axpy(x, y):\n    pass\n")
    tables, name = LineTables((path,), (path, 4)), parse_kernel_name("axpy")
    assert find_by_line_tables(tables, (tmp_path,), name, Consulted()) is None
    told = find_told_line(tables, (tmp_path,), Consulted())
    assert (None if told is None else told.line) == (None if suffix == ".py" else 4)
