from pathlib import Path

import pytest

from kerncap_stages.compilers.consulted import list_source_files
from kerncap_stages.locate.definitions import find_definitions
from kerncap_stages.locate.macros import collect_macros

SOURCE = rb"""
#define KERNEL __global__ __launch_bounds__(256)
#define WRAPPED KERNEL
#define BOUNDS(x) __launch_bounds__(x)
namespace outer { namespace {
template <typename T, int N = 4>
__launch_bounds__(256, 2) static __global__ void scale(T* x, float a) {
  x[0] *= a;
}
} }
extern "C" { __global__ void plain(float *x) { x[0] = 1; } }
WRAPPED void macroed(float *x) { x[0] = 2; }
static __global__ BOUNDS(64) void bounded(float *x) { x[0] = 2; }
__global__ void __launch_bounds__(128) after(float *x) { x[0] = 2; }
namespace a::b { template <class F> __global__ void run(F f) { f(); } }
#define DEFINE(name) __global__ void name##_kernel(float *x) { x[0] = 1; }
DEFINE(pasted)
__global__ void declared(float *x);
__device__ void helper(float *x) { x[0] = 3; }
// __global__ void commented(float *x) { }
int main() { plain<<<1, 64>>>(nullptr); outer::scale<float, 4><<<1, 1, 0, 0>>>(nullptr, 1.f); }
"""


def find(base: str, text: bytes = SOURCE):
    return find_definitions(Path("k.hip"), text, base, collect_macros([text]))


@pytest.mark.parametrize(
    ("base", "line", "scopes"),
    [
        ("scale", 7, ("outer", "(anonymous namespace)")),
        ("plain", 11, ()),
        ("macroed", 12, ()),
        ("bounded", 13, ()),
        ("after", 14, ()),
        ("run", 15, ("a", "b")),
    ],
)
def test_finds_the_definition_whatever_stands_around_global(base, line, scopes):
    (definition,) = find(base)
    assert (definition.line, definition.scopes, definition.macro) == (line, scopes, None)


def test_finds_a_kernel_whose_name_a_macro_pastes():
    (definition,) = find("pasted_kernel")
    assert (definition.line, definition.macro) == (17, "DEFINE")


GENERATED = rb"""
#define MAKE(type, name) \
  __global__ void name##_##type(const type* x, type* y) { \
    y[0] = op_##name(x[0]); \
  }
#define BOTH(name) \
  MAKE(float, name) \
  MAKE(double, name)
MAKE(int, scale)
BOTH(scale)
MAKE(float, rescale) MAKE(int,
  many)
#define LIST(...) MAKE(__VA_ARGS__)
LIST(half, scale)
"""


@pytest.mark.parametrize(
    ("base", "lines"),
    [
        ("scale_int", [("MAKE", 9)]),
        ("scale_float", [("BOTH", 10)]),
        ("scale_double", [("BOTH", 10)]),
        ("rescale_float", [("MAKE", 11)]),
        ("many_int", [("MAKE", 11)]),
        ("scale_half", [("LIST", 14)]),
        ("op_scale", []),
        ("scale", []),
    ],
)
def test_a_macro_makes_just_the_kernels_whose_names_it_pastes(base, lines):
    assert [(each.macro, each.line) for each in find(base, GENERATED)] == lines


@pytest.mark.parametrize("base", ["declared", "helper", "commented", "main", "absent"])
def test_takes_no_declaration_device_function_comment_or_call_for_a_kernel(base):
    assert find(base) == []


@pytest.mark.parametrize(
    "text",
    [
        b"__global__ void\n// what it does: void other(int) {\nk\n(float* p) { }",
        b"/* } */ __global__ /* ; */ void /* k( */ k(float* p) // why\n{ }",
        b"#define NO_THROW noexcept\n__global__ void k(float* p) NO_THROW { }",
        b"__global__ void k(float* p) __attribute__((used)) /* { */\n{ }",
    ],
)
def test_comments_and_macros_in_a_head_hide_nothing(text):
    (definition,) = find("k", text)
    assert definition.macro is None


@pytest.mark.parametrize(
    "text",
    [
        b'#define HEAD(name) extern "C" __global__ void name\nHEAD(other)(int* x) { }\nHEAD(k)(float* p) { }',
        b"#define HEAD(name, ...) __global__ void name(__VA_ARGS__)\n\nHEAD(k, float* p, int n) { }",
        b"#define BOUNDS(n) __global__ __launch_bounds__(n)\n\nBOUNDS(64) void k(float* p) { }",
    ],
)
def test_a_macro_may_hold_the_head_of_a_kernel(text):
    assert [each.line for each in find("k", text)] == [3]


def test_a_list_uses_the_macro_that_it_is_given():
    text = b"""
#define KINDS(USE) USE(add, +) \\
  USE(scale, *)
#define DEFINE(name, op) __global__ void name##_all(float* x) { x[0] = x[0] op 2; }
KINDS(DEFINE)
#define DECLARE(name, op) void name##_each(float*);
KINDS(DECLARE)
"""
    assert [(each.line, each.macro) for each in find("scale_all", text)] == [(5, "KINDS")]
    assert find("scale_each", text) == []


def test_a_declaration_by_a_macro_is_no_definition():
    text = b"#define HEAD(name) __global__ void name\nHEAD(k)(float*);\nHEAD(k)(float* p) { }"
    assert [each.line for each in find("k", text)] == [3]


def test_spans_the_whole_body():
    (definition,) = find("scale")
    assert (definition.line, definition.last_line, definition.is_template) == (7, 9, True)


BODIES = {
    "a string": b'  printf("}{{", 1);',
    "a character": b"  if (c == '}' || c == '{') c = '{';",
    "a comment to the end of its line": b"  // until }",
    "a comment": b"  /* { and\n {{ */",
    "a raw string": b'  say(R"x(} " } {\n{)x");',
    "two halves of a condition": b"#if FAST\n  if (c) {\n#else\n  if (d) {\n#endif\n  c = d; }",
    "a block under a condition": (
        b"# if FAST\n  if (c) {\n# else\n  c = 0;\n# endif\n  c = d;\n#if FAST\n}\n#endif"
    ),
    "a macro": b"#define OPEN if (c) { \\\n {\n  c = d;",
    "a lambda, and a list": b"  auto f = [](int a) { return S{a}; };",
    "what no grammar knows": b"  UNROLL(4) for_each @ c { c = 1; }",
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
@pytest.mark.parametrize(
    "head", [b"", b" // } {\n", b" BOUNDS(64) /* { */ ANOTHER\n"], ids=["", "comment", "macros"]
)
def test_a_definition_ends_with_its_body_whatever_is_in_it(head, body):
    text = (
        b"__global__ void k(int c, int d)"
        + head
        + b"{\n"
        + body
        + b"\n}\nint x;\n__device__ void next() { }\n"
    )
    (definition,) = find("k", text)
    assert definition.last_line == text[: text.index(b"}\nint x")].count(b"\n") + 1


def test_a_namespace_ends_no_body_of_its_own():
    body = BODIES["two halves of a condition"]
    text = b"namespace n {\n__global__ void k(int c, int d) {\n" + body + b"\n}\n}\n"
    (definition,) = find("k", text)
    assert definition.last_line == text.count(b"\n") - 1


def test_a_body_without_an_end_ends_with_its_file():
    (definition,) = find("k", b"__global__ void k(int c) {\n  if (c) {\n  c = 1;\n}\n")
    assert definition.last_line == 5


def test_reads_latin_1_files():
    text = b"// caf\xe9\n__global__ void k(float* x) { x[0] = 0; } // \xfc"
    (definition,) = find("k", text)
    assert definition.line == 2


def test_overloads_are_all_listed():
    text = b"__global__ void k(float* x) { }\n__global__ void k(int* x) { }\n"
    assert [definition.line for definition in find("k", text)] == [1, 2]


def test_lists_sources_sorted_without_hidden_folders(tmp_path):
    for name in ("b.hip", "a/k.cuh", ".git/x.cpp", "notes.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "a/again").symlink_to(tmp_path, target_is_directory=True)
    # A generated project holds copies: they are not the sources of anything.
    for name in ("isolated/k/kernel_variant.cpp", "isolated/k/capture/project.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert [path.relative_to(tmp_path).as_posix() for path in list_source_files(tmp_path)] == [
        "b.hip",
        "a/k.cuh",
    ]


CONDITIONAL_HEAD = b"""
template <typename Gridwise>
__global__ void
#if USE_LAUNCH_BOUNDS && \\
    defined(MAX_THREADS)
    __launch_bounds__(MAX_THREADS, 2)
#endif
        gemm(const float* __restrict__ a, float* out)
{
#if defined(__gfx90a__)
  *out = *a;
#else
  ignore = a;
#endif
}
"""


def test_a_condition_in_a_head_hides_no_kernel():
    (found,) = find("gemm", CONDITIONAL_HEAD)
    assert (found.line, found.last_line, found.is_template) == (8, 15, True)
    assert len(found.parameters) == 2


def test_a_condition_in_the_head_of_one_overload_hides_none_of_them():
    plain = b"template <int N> __global__ void gemm(const half* a) { }\n"
    assert [found.line for found in find("gemm", plain + CONDITIONAL_HEAD)] == [1, 9]


def test_a_macro_may_take_the_name_from_another():
    text = (
        b"#define JOIN(a, b) a##_##b\n"
        b"#define NAME(op, T) JOIN(k_##op, T)\n"
        b"#define MAKE(op, T) __global__ void NAME(op, T)(T* x) { NAME(do, T)(x); }\n"
        b"MAKE(add, float)\n"
        b"MAKE(sub, float)\n"
    )
    assert [found.line for found in find("k_sub_float", text)] == [5]
    assert find("k_do_float", text) == []
