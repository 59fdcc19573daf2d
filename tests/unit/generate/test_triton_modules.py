"""The Python modules of a Triton project, from what was recorded of functions."""

from __future__ import annotations

import ast

import manifest_examples
import pytest

from kerncap_stages.digest import FileRef
from kerncap_stages.errors import Refused
from kerncap_stages.generate.triton_modules import TritonModules
from kerncap_stages.manifests.triton import TritonFunction, TritonKernel, TritonValue

KERNEL = '''import triton

class Model:
    @triton.autotune(configs=[], key=[])
    @triton.jit(noinline=True, do_not_specialize=NAMES)
    def kernel(x, n):
        """Text."""
        return shapes.twice(x) + again(n)

@triton.jit
def again(n): return n
'''
SHAPES = "@triton.jit\ndef twice(x):\n    return x * SCALE\n"


def use(name: str, type_name: str, text: str) -> TritonValue:
    return TritonValue(name=name, type_name=type_name, text=text)


def modules(*kernel_uses: TritonValue, shapes_uses: tuple[TritonValue, ...] = ()) -> dict[str, str]:
    texts = {name: manifest_examples.digest(name) for name in ("kernel.py", "shapes.py")}

    def function(module, name, file, lines, uses):
        return TritonFunction(
            module=module, qualified_name=name, path=f"/home/{file}", line=lines[0], end_line=lines[1],
            source=FileRef.to(texts[file]), source_size_bytes=100, uses=uses,
        )  # fmt: skip

    again = use("again", "function", "app:again")
    twice = use("shapes.twice", "function", "app.shapes:twice")
    functions = (
        function("app", "Model.kernel", "kernel.py", (4, 8), (again, twice, *kernel_uses)),
        function("app", "again", "kernel.py", (10, 11), ()),
        function("app.shapes", "twice", "shapes.py", (1, 3), shapes_uses),
    )
    triton = manifest_examples.triton_kernel().triton.model_copy(update={"functions": functions})
    assert isinstance(triton, TritonKernel)
    contents = {texts["kernel.py"]: KERNEL.encode(), texts["shapes.py"]: SHAPES.encode()}
    return {path: text.decode() for path, text in TritonModules(triton, contents).render().items()}


def test_each_module_of_the_program_becomes_one():
    made = modules()
    assert made.keys() == {"kernel_variant.py", "triton_sources/app_shapes.py"}
    for text in made.values():
        ast.parse(text)


def test_a_function_has_its_own_text_and_of_its_decorators_triton_jit():
    text = modules()["kernel_variant.py"]
    kernel = 'def kernel(x, n):\n    """Text."""\n    return shapes.twice(x) + again(n)\n'
    assert f"@triton.jit(noinline=True)\n{kernel}" in text
    assert "autotune" not in text
    assert "@triton.jit\ndef again(n): return n\n" in text


def test_a_function_of_another_module_is_bound_at_the_end():
    text = modules()["kernel_variant.py"]
    assert "shapes = types.ModuleType('shapes')" in text
    last = "from triton_sources.app_shapes import twice as _shapes_twice\nshapes.twice = _shapes_twice\n"
    assert text.endswith(last)


def test_an_alias_is_bound_too():
    text = modules(use("more", "function", "app.shapes:twice"), use("once", "function", "app:again"))
    assert "from triton_sources.app_shapes import twice as more\n" in text["kernel_variant.py"]
    assert "once = again\n" in text["kernel_variant.py"]


@pytest.mark.parametrize(
    ("found", "line"),
    [
        (use("SCALE", "float", "-inf"), "SCALE = tl.constexpr(-inf)"),
        (use("SCALE", "float", "-inf"), "from math import inf, nan"),
        (use("NAMES", "tuple", "('a', 2)"), "NAMES = tl.constexpr(('a', 2))"),
        (use("TYPE", "dtype", "tl.dtype('fp16')"), "TYPE = tl.dtype('fp16')"),
        (use("tl", "module", "triton.language"), "import triton.language as tl"),
        (use("tl", "module", "triton.other"), "import triton.other as tl"),
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
        (use("KIND", "Kind", "<Kind.SUM: 1>"), "KIND, a Python object of type Kind"),
        (use("other", "module", "os"), "other, a Python object of type module"),
        (use("gone", "function", "elsewhere:gone"), "the source of elsewhere:gone was not recorded"),
    ],
)
def test_what_cannot_stand_alone_is_refused_by_its_name(found, named):
    with pytest.raises(Refused, match=named):
        modules(found)
