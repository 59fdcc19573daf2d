"""The Python modules of a Triton project, from what was recorded of functions."""

from __future__ import annotations

import ast

import manifest_examples
import pytest

from kerncap_stages.digest import FileRef
from kerncap_stages.errors import Refused
from kerncap_stages.generate.triton_modules import TritonModules
from kerncap_stages.generate.triton_values import is_plain
from kerncap_stages.manifests.triton import TritonFunction, TritonKernel, TritonValue

KERNEL = '''def kernel(x, n):
    """Text."""
    return shapes.twice(x) + again(n)
'''
AGAIN = "def again(n): return n\n"
TWICE = "def twice(x):\n    return x * SCALE\n"


def use(name: str, type_name: str, text: str, function: int | None = None) -> TritonValue:
    return TritonValue(name=name, type_name=type_name, text=text, function=function)


def make_function(module, name, text, uses=(), **fields):
    return TritonFunction(
        module=module, qualified_name=name, path=f"/home/{module}.py", line=1, end_line=9,
        source=FileRef.to(manifest_examples.digest(module)), source_size_bytes=100, text=text,
        **{"decorator": "jit", "noinline": False, "has_own_name": False} | fields, uses=uses,
    )  # fmt: skip


def render(*functions: TritonFunction) -> dict[str, str]:
    triton = manifest_examples.triton_kernel().triton.model_copy(update={"functions": functions})
    assert isinstance(triton, TritonKernel)
    return {path: text.decode() for path, text in TritonModules(triton, "symbol").render().items()}


def modules(*kernel_uses: TritonValue, **fields) -> dict[str, str]:
    again = use("again", "function", "app:again", 1)
    twice = use("shapes.twice", "function", "app.shapes:twice", 2)
    return render(
        make_function("app", "Model.kernel", KERNEL, (again, twice, *kernel_uses), **fields),
        make_function("app", "again", AGAIN),
        make_function("app.shapes", "twice", TWICE),
    )


def test_each_module_of_the_program_becomes_one():
    made = modules()
    assert made.keys() == {"kernel_variant.py", "triton_sources/app_shapes.py"}
    for text in made.values():
        ast.parse(text)


def test_a_function_has_its_own_text_and_of_its_decorators_triton_jit():
    text = modules()["kernel_variant.py"]
    assert f"@triton.jit\n{KERNEL}" in text
    assert f"@triton.jit\n{AGAIN}" in text


@pytest.mark.parametrize(
    ("fields", "decorator"),
    [
        ({"noinline": True}, "@triton.jit(noinline=True)"),
        ({"has_own_name": True}, "@triton.jit(repr=lambda _: 'symbol')"),
        ({"decorator": "constexpr_function"}, "@triton.constexpr_function"),
    ],
)
def test_a_decorator_says_what_changes_the_compilation(fields, decorator):
    assert f"{decorator}\n{KERNEL}" in modules(**fields)["kernel_variant.py"]


def test_a_closure_that_uses_a_name_in_its_own_way_becomes_a_module():
    made = render(
        make_function("app", "k", "def k(x):\n    return double(x) * n\n",
                      (use("double", "function", "app:make.scale", 1), use("n", "int", "3"))),
        make_function("app", "make.scale", "def scale(x):\n    return x * n\n", (use("n", "int", "2"),)),
    )  # fmt: skip
    kernel = made["kernel_variant.py"]
    assert "from triton_sources.app import scale as double\n" in kernel
    assert "n = tl.constexpr(3)\n" in kernel
    assert "n = tl.constexpr(2)\n" in made["triton_sources/app.py"]


def test_two_closures_of_one_function_are_refused():
    text = "def scale(x):\n    return x * n\n"
    with pytest.raises(Refused, match=r"two functions app\.make\.scale"):
        render(
            make_function("app", "k", "def k(x):\n    return double(x) + triple(x)\n"),
            make_function("app", "make.scale", text, (use("n", "int", "2"),)),
            make_function("app", "make.scale", text, (use("n", "int", "3"),)),
        )


def test_two_files_of_one_module_name_become_two_modules():
    first = make_function("__main__", "k", "def k(x):\n    return other(x)\n",
                          (use("other", "function", "__main__:other", 1),))  # fmt: skip
    second = make_function("__main__", "other", "def other(x):\n    return x\n")
    made = render(first, second.model_copy(update={"path": "/elsewhere/main.py"}))
    assert "from triton_sources.__main__ import other\n" in made["kernel_variant.py"].replace(" as other", "")
    assert "def other(x)" in made["triton_sources/__main__.py"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("k", "def other(x): pass\n"),
        ("k", "def k(x): pass\nprint()\n"),
        ("k", "print()\n"),
        ("k", "def k(x): return " + "-" * 100_000 + "1"),
        ("k", "def k(x): return \0"),
        ("triton", "def triton(x): pass\n"),
        ("k\nprint()", "def k(x): pass\n"),
    ],
)
def test_a_text_that_is_not_the_function_is_refused(name, text):
    with pytest.raises(Refused):
        render(make_function("app", name, text))


def test_a_function_as_a_default_is_refused():
    with pytest.raises(Refused, match="again as a default"):
        render(
            make_function(
                "app", "k", "def k(x, f=again): pass\n", (use("again", "function", "app:again", 1),)
            ),
            make_function("app", "again", AGAIN),
        )


@pytest.mark.parametrize(
    "text",
    ["[1, 2]", "(1, -2.5, 'a', None, True)", "float('-inf')", "(tl.dtype('fp16'),)", "('*fp32', 'i32')"],
)
def test_a_plain_value_is_written(text):
    assert is_plain(text)


@pytest.mark.parametrize(
    "text", ["print()", "float(open('x'))", "(1, os)", "-" * 100_000 + "1", "", "1; 2", "..."]
)
def test_what_is_no_plain_value_is_not(text):
    assert not is_plain(text)


def test_a_function_of_another_module_is_bound_at_the_end():
    text = modules()["kernel_variant.py"]
    assert "shapes = types.ModuleType('shapes')" in text
    last = "from triton_sources.app_shapes import twice as _shapes_twice\nshapes.twice = _shapes_twice\n"
    assert text.endswith(last)


def test_an_alias_is_bound_too():
    text = modules(use("more", "function", "app.shapes:twice", 2), use("once", "function", "app:again", 1))
    assert "from triton_sources.app_shapes import twice as more\n" in text["kernel_variant.py"]
    assert "once = again\n" in text["kernel_variant.py"]


@pytest.mark.parametrize(
    ("found", "line"),
    [
        (use("SCALE", "float", "float('-inf')"), "SCALE = tl.constexpr(float('-inf'))"),
        (use("NAMES", "tuple", "('a', 2)"), "NAMES = tl.constexpr(('a', 2))"),
        (use("TYPE", "dtype", "tl.dtype('fp16')"), "TYPE = tl.dtype('fp16')"),
        (use("tl", "module", "triton.language"), "import triton.language as tl"),
        (use("math", "module", "math"), "import math"),
        (
            use("shapes.tl", "module", "triton.language"),
            "import triton.language as shapes_tl\nshapes.tl = shapes_tl",
        ),
        (use("power", "import", "triton.language.math:exp"), "from triton.language.math import exp as power"),
    ],
)
def test_a_name_is_bound_to_what_it_stood_for(found, line):
    assert f"{line}\n" in modules(found)["kernel_variant.py"]


@pytest.mark.parametrize(
    ("found", "named"),
    [
        (use("KIND", "app.Kind", ""), "KIND is a Python object of type app.Kind"),
        (use("other", "module", "os"), "other is a Python object of type module"),
        (use("gone", "function", "elsewhere:gone"), "the source of elsewhere:gone was not recorded"),
        (use("tl", "module", "triton.other"), "means something else"),
        (use("VALUE", "int", "print()"), "VALUE is no value that can be written"),
        (use("x; print()", "int", "1"), "not a name in Python"),
        (use("exp", "import", "os:system"), "no part of Triton"),
    ],
)
def test_what_cannot_stand_alone_is_refused_by_its_name(found, named):
    with pytest.raises(Refused, match=named):
        modules(found)
