import pytest

from kerncap_stages.code.element_types import (
    count_lanes,
    find_element_type,
    find_pointee,
    is_pointer_to_const,
)
from kerncap_stages.code.structs import Types, find_size


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("float", "fp32"),
        ("double const", "fp64"),
        ("__half", "fp16"),
        ("_Float16", "fp16"),
        ("__hip_bfloat16", "bf16"),
        ("__bf16", "bf16"),
        ("__hip_fp8_e4m3_fnuz", "fp8_e4m3_fnuz"),
        ("unsigned char", "uint8"),
        ("bool", "uint8"),
        ("long long unsigned int", "uint64"),
        ("short", "int16"),
        ("std::uint32_t", "uint32"),
        ("int8_t", "int8"),
        ("HIP_vector_type<float, 4u>", "fp32"),
        ("float4", "fp32"),
        ("uchar2", "uint8"),
        ("longlong2", "int64"),
        ("__half2", "fp16"),
        ("std::complex<double>", "fp64"),
        ("float __vector(4)", "fp32"),
        ("hipDoubleComplex", "fp64"),
    ],
)
def test_known_types(text, kind):
    assert find_element_type(text) == kind


@pytest.mark.parametrize(
    "text", ["void", "Pair", "float*", "T", "", "std::vector<float>", "__hip_fp8_storage_t"]
)
def test_what_is_not_known_is_no_guess(text):
    assert find_element_type(text) is None


@pytest.mark.parametrize(
    ("text", "target", "const"),
    [
        ("float*", "float", False),
        ("float const*", "float", True),
        ("const float *__restrict__", "float", True),
        ("const float* const", "float", True),
        ("float* const", "float", False),
        ("float const* const*", "float *", True),
        ("int[4]", "int", False),
        ("double&", "double", False),
        ("int", None, False),
        ("const Shape", None, False),
    ],
)
def test_pointers(text, target, const):
    found = find_pointee(text)
    assert (found and found.replace(" *", "*")) == (target and target.replace(" *", "*"))
    assert is_pointer_to_const(text) is const


def test_lanes():
    assert [count_lanes(text) for text in ("float", "float3", "hipComplex", "Pair")] == [1, 3, 2, None]


SOURCE = b"""
using real = double;
typedef int index_t;
struct Pair { float first, second; };
struct Mixed { float value; int index; };
struct Padded { double value; float other; };
struct Nested { Pair pairs[2]; float last; };
struct View { const float* data; index_t count; real* out; float4 scale; };
struct Base {}; struct Derived : Base { float x; };
struct Virtual { virtual void f(); float x; };
struct Bits { unsigned a : 3; };
struct Static { static int count; float x; void method() const { } };
namespace a { struct Twice { float x; }; } namespace b { struct Twice { int x; }; }
"""


def test_structs_of_one_type_are_that_type():
    types = Types([SOURCE])
    assert types.find_element_type("Pair") == "fp32"
    assert types.find_element_type("ns::Nested") == "fp32"
    assert types.find_element_type("real") == "fp64"
    assert types.find_element_type("index_t") == "int32"
    assert types.find_element_type("Static") == "fp32"


@pytest.mark.parametrize("name", ["Mixed", "Padded", "Derived", "Virtual", "Bits", "Twice", "View", "Absent"])
def test_other_structs_are_unknown(name):
    assert Types([SOURCE]).find_element_type(name) is None


def test_layout_follows_the_abi():
    layout = Types([SOURCE]).find_layout("View")
    assert [(field.offset_bytes, field.name) for field in layout.fields] == [
        (0, "data"),
        (8, "count"),
        (16, "out"),
        (32, "scale"),
    ]
    assert (layout.size_bytes, layout.align_bytes) == (48, 16)


TEMPLATES = b"""
template <typename T, class Index = int> struct Span { T* data; Index count; };
namespace lib {
template <typename T, typename U> struct Arguments { Span<U, long> in; Span<const T, long> out; T scale; };
template <> struct Arguments<char, char> { int* special; };
template <typename T, int N> struct Sized { T values[N]; };
}
"""


def test_template_arguments_stand_in_members():
    types = Types([TEMPLATES])
    layout = types.find_layout("lib::Arguments<double, std::pair<int, lib::X> >")
    assert [(field.offset_bytes, field.type_name, field.name) for field in layout.fields] == [
        (0, "std::pair<int, lib::X>*", "in.data"),
        (8, "long", "in.count"),
        (16, "double*", "out.data"),
        (24, "long", "out.count"),
        (32, "double", "scale"),
    ]
    (special,) = types.find_layout("lib::Arguments<char, char>").fields
    assert special.name == "special"


@pytest.mark.parametrize("name", ["Span", "Span<float>", "Span<float, Absent>", "lib::Sized<float, 4>"])
def test_a_template_whose_arguments_are_not_all_known_has_no_layout(name):
    assert Types([TEMPLATES]).find_layout(name) is None


def test_sizes():
    assert [find_size(kind) for kind in ("fp64", "bf16", "fp8_e5m2", "uint16", "bytes")] == [8, 2, 1, 2, 0]
