"""Which Python functions are taken for Triton kernels, and which files they reach."""

from __future__ import annotations

import textwrap

import pytest
from manifest_examples import capture, digest, hsa_kernel

from kerncap_stages.code.kernel_names import parse_kernel_name
from kerncap_stages.compilers.consulted import Consulted
from kerncap_stages.compilers.line_tables import LineTables
from kerncap_stages.locate.python_kernels import find_python_kernels
from kerncap_stages.locate.python_source import find_triton_source
from kerncap_stages.locate.search import find_by_line_tables, find_told_line

WRAPPER = "import triton\n\ndef make(fn):\n    return triton.jit(fn)\n"


def write(folder, **files):
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))


def find(folder, name="axpy", arguments=None, tables=LineTables()):  # noqa: B008 - frozen
    return find_python_kernels((folder,), name, arguments, tables, Consulted())


@pytest.mark.parametrize(
    ("head", "decorator", "is_triton"),
    [
        ("import triton", "triton.jit", True),
        ("import triton as tr", "tr.jit(debug=True)", True),
        ("from triton import jit as compile_it", "compile_it", True),
        ("from triton.experimental import gluon", "gluon.jit", True),
        ("import triton, functools\nmine = functools.partial(triton.jit, noinline=True)", "mine", True),
        ("from wrapper import make as mine", "mine", True),
        ("from wrapper import triton as tr", "tr.jit", True),
        ("from wrapper import *", "make", True),
        ("try:\n    import triton\nexcept ImportError:\n    triton = None", "triton.jit", True),
        ("from numba import cuda", "cuda.jit", False),
        ("import numba", "numba.jit", False),
        ("from numba import jit", "jit", False),
        ("import cutlass.cute as triton", "triton.jit", False),
        ("import triton", "triton.heuristics({})", False),
    ],
)
def test_only_functions_that_triton_compiles(tmp_path, head, decorator, is_triton):
    write(tmp_path, wrapper=WRAPPER, kernels=f"{head}\n\n@{decorator}\ndef axpy(x, y):\n    pass\n")
    assert bool(find(tmp_path)) == is_triton


def test_a_function_that_is_given_to_the_compiler_by_a_call(tmp_path):
    write(tmp_path, kernels="import triton\n\ndef axpy(x):\n    pass\n\nkernel = triton.jit(axpy)\n")
    (found,) = find(tmp_path)
    assert (found.qualified_name, found.line, found.last_line) == ("axpy", 3, 4)


def test_a_part_of_a_name_is_no_kernel_and_a_specialised_name_is(tmp_path):
    text = "import triton\n\nclass Made:\n    @triton.jit\n    def axpy(x, N: tl.constexpr):\n        pass\n"
    write(tmp_path, kernels=text)
    assert not find(tmp_path, "axpy_backward")
    assert not find(tmp_path, "my_axpy")
    (found,) = find(tmp_path, "axpy_0d1d2de")
    assert found.qualified_name == "Made.axpy"
    assert found.parameters == (("x", ""), ("N", "tl.constexpr"))


def test_parameters_tell_functions_of_one_name_apart(tmp_path):
    text = "import triton\n\n@triton.jit\ndef axpy({}):\n    pass\n"
    write(tmp_path, few=text.format("x"), many=text.format("x, y, z, a, b, N: 'tl.constexpr'"))
    assert [each.path.name for each in find(tmp_path, arguments=6)] == ["many.py"]
    assert len(find(tmp_path, arguments=2)) == 2  # the number 1 is no argument: either may be meant


def test_the_line_table_names_the_function_whatever_the_kernel_is_called(tmp_path):
    text = "import triton\n\n@triton.jit(repr=name)\ndef axpy(x):\n    pass\n"
    write(tmp_path, kernels=text, other=text)
    tables = LineTables((tmp_path / "other.py",), (tmp_path / "other.py", 4))
    (found,) = find(tmp_path, "kernel_of_64", tables=tables)
    assert found.path.name == "other.py"
    assert found.by_line_table


def test_a_function_of_the_kernels_name_goes_before_one_at_a_line_that_moved(tmp_path):
    text = "import triton\n\n@triton.jit\ndef helper(x):\n    pass\n\n@triton.jit\ndef axpy(x):\n    pass\n"
    other = "import triton\n\n@triton.jit\ndef axpy(x):\n    pass\n\n@triton.jit\ndef scale(x):\n    pass\n"
    write(tmp_path, kernels=text, more__kernels=other)
    path = tmp_path / "kernels.py"
    (found,) = find(tmp_path, tables=LineTables((path,), (path, 4)))
    assert (found.path, found.qualified_name, found.by_line_table) == (path, "axpy", False)
    # Another file of the table's name is not the table's: `repr` may have named this kernel.
    (found,) = find(tmp_path, "scale", tables=LineTables((path,), (path, 4)))
    assert (found.path, found.qualified_name, found.by_line_table) == (path, "helper", True)


def test_long_expressions_and_warnings_of_the_program_are_no_hindrance(tmp_path):
    kernel = "import triton\n\n@triton.jit\ndef axpy(x):\n    '\\d'\n"
    write(tmp_path, kernels=f"{kernel}\nx = {' + '.join(['1'] * 1500)}\n")
    assert [each.qualified_name for each in find(tmp_path)] == ["axpy"]


def test_a_package_that_a_module_may_become_a_part_of_is_recorded(tmp_path):
    write(tmp_path, app__kernels="import triton, more\n\n@triton.jit\ndef axpy(x):\n    more.half(x)\n")
    consulted = Consulted()
    find_python_kernels((tmp_path,), "axpy", None, LineTables(), consulted)
    assert consulted.digests[tmp_path / "app/__init__.py"] is None
    assert tmp_path / "app/more.py" in consulted.digests


def explain(folder, tables=LineTables()):  # noqa: B008 - frozen
    found = capture(kernel=hsa_kernel(mangled_name="axpy", demangled_name="axpy"))
    source = find_triton_source(found, digest("capture"), tables, (folder,), Consulted(), None)
    return source.explanation


def test_python_that_triton_did_not_compile_is_not_called_tritons(tmp_path):
    write(tmp_path, kernels="from numba import cuda\n\n@cuda.jit\ndef axpy(x):\n    pass\n")
    path = tmp_path / "kernels.py"
    text = explain(tmp_path, LineTables((path,), (path, 4)))
    assert "axpy was compiled from Python" in text
    assert "axpy is a Triton kernel" not in text


@pytest.mark.parametrize(("other", "hint"), [("", "a capture with a record"), ("more/", "--source-dir")])
def test_what_tells_functions_of_one_name_apart(tmp_path, other, hint):
    text = "import triton\nif {}:\n    @triton.jit\n    def axpy(x): pass\n"
    write(tmp_path, kernels=text.format("X"), **{f"{other}kernels2": text.format("not X")})
    assert explain(tmp_path).partition("functions fit")[2].count(hint) == 1


@pytest.mark.parametrize("packages", [(), ("app", "app/deep")])
def test_all_files_that_a_kernel_reaches(tmp_path, packages):
    for package in packages:
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").touch()
    write(
        tmp_path,
        app__kernels="""
            import triton, triton.language as tl, os, unused
            import app.deep.more as more
            from . import helpers
            from .helpers import twice as double

            @triton.jit
            def axpy(x, y):
                tl.store(y, double(tl.load(x)) + helpers.half(2) + more.LIMIT)
            """,
        app__helpers="""
            import triton
            from .constants import SCALE
            from app.other import unreached

            @triton.jit
            def twice(x):
                return x * SCALE

            def half(x):
                return x / 2
            """,
        app__constants="SCALE = 2\n",
        app__deep__more="from ..limits import *\n",
        app__limits="LIMIT = 3\n",
        app__other="unreached = 1\n",
        unused="",
    )
    (found,) = find(tmp_path)
    names = [str(path.relative_to(tmp_path)) for path in found.files]
    assert names[0] == "app/kernels.py"
    assert sorted(names[1:]) == ["app/constants.py", "app/helpers.py", "app/limits.py"]


def test_files_that_are_no_python_of_today_are_passed_over(tmp_path):
    write(tmp_path, old="print 'x'\ndef axpy(x): pass\n", deep="x = " + "(" * 5000 + "\ndef axpy(): pass\n")
    write(tmp_path, loop="from loop import axpy\ndef f():\n    @axpy\n    def axpy(x): axpy(x)\n")
    assert find(tmp_path) == []


@pytest.mark.parametrize("suffix", [".py", ".cu"])
def test_line_numbers_of_python_lead_to_no_definition_in_cpp(tmp_path, suffix):
    path = tmp_path / f"attention{suffix}"
    path.write_text("import triton\n\n@triton.jit\ndef axpy(x, y):\n    pass\n")
    tables, name = LineTables((path,), (path, 4)), parse_kernel_name("axpy")
    assert find_by_line_tables(tables, (tmp_path,), name, Consulted()) is None
    told = find_told_line(tables, (tmp_path,), Consulted())
    assert (None if told is None else told.line) == (None if suffix == ".py" else 4)
