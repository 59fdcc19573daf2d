import pytest

from kerncap_stages._native import demangle
from kerncap_stages.code.kernel_names import ANONYMOUS, drop_signature, parse_kernel_name


@pytest.mark.parametrize(
    ("demangled", "scopes", "base", "template_arguments"),
    [
        ("scale(float*, int)", (), "scale", ()),
        ("plain", (), "plain", ()),
        ("scale.kd", (), "scale", ()),
        ("a::b::scale(float*)", ("a", "b"), "scale", ()),
        (
            "void mul_mat_q<(ggml_type)39, 32, true>(char const*)",
            (),
            "mul_mat_q",
            ("(ggml_type)39", "32", "true"),
        ),
        (f"void ns::{ANONYMOUS}::f<float>(int)", ("ns", ANONYMOUS), "f", ("float",)),
        (f"{ANONYMOUS}::f({ANONYMOUS}::S<int>)", (ANONYMOUS,), "f", ()),
        ("void k<((1)>(2)), ((1)<(2))>(int)", (), "k", ("((1)>(2))", "((1)<(2))")),
        ("void k<&(a::g<int>(int))>(void (*)(int, int))", (), "k", ("&(a::g<int>(int))",)),
        ("void o<T>::k<1>(int)", ("o",), "k", ("1",)),
        (
            "void run<app()::{lambda(int)#1}::operator()(int) const::{lambda()#2}>(int)",
            (),
            "run",
            ("app()::{lambda(int)#1}::operator()(int) const::{lambda()#2}",),
        ),
    ],
)
def test_parts_of_a_demangled_name(demangled, scopes, base, template_arguments):
    name = parse_kernel_name(demangled)
    assert (name.scopes, name.base, name.template_arguments) == (scopes, base, template_arguments)


def test_parameters_are_split_outside_brackets():
    name = parse_kernel_name("void k<int>(S<int, 2>, void (*)(int, int), float const*)")
    assert name.parameters == ("S<int, 2>", "void (*)(int, int)", "float const*")


@pytest.mark.parametrize(
    ("name", "base", "template_arguments"),
    [
        ("rotate<(kind)39", "rotate", ()),
        ("void ns::rotate<(kind)39, 1, true, false", "rotate", ()),
        ("void rotate<(kind)39, 128>(char const*, int", "rotate", ("(kind)39", "128")),
        ("scale(float", "scale", ()),
    ],
)
def test_a_name_that_a_profiler_cut_off_has_its_base(name, base, template_arguments):
    cut = parse_kernel_name(name)
    assert (cut.base, cut.template_arguments, cut.parameters) == (base, template_arguments, ())


@pytest.mark.parametrize(
    ("mangled", "readable"),
    [
        ("_Z5scaleIfLi4ETpTnDaJLi0ELi7EEEvPT_i", "void scale<float, 4, 0, 7>(float*, int)"),
        ("_Z4fillITnDaLi3EEvPf", "void fill<3>(float*)"),
        (
            "_Z5scaleITkSt14floating_pointfEvPT_PKS0_S0_i",
            "void scale<float>(float*, float const*, float, int)",
        ),
        ("_Z4fillITkN3app6numberEiEvPT_", "void fill<int>(int*)"),
        ("_Z4fillITk99numberiEvPT_", "_Z4fillITk99numberiEvPT_"),
        ("_Z5TnDabPf", "TnDab(float*)"),
        ("TnDab", "TnDab"),
    ],
)
def test_kernels_with_deduced_or_constrained_parameters_are_readable(mangled, readable):
    assert demangle(mangled) == readable


def test_a_constraint_is_no_part_of_the_name():
    name = parse_kernel_name("void app::scale<float>(float*, int) requires std::floating_point<T>")
    assert (name.scopes, name.base, name.parameters) == (("app",), "scale", ("float*", "int"))


@pytest.mark.parametrize(
    ("demangled", "name"),
    [
        (f"{ANONYMOUS}::hidden(float*, int)", f"{ANONYMOUS}::hidden"),
        ("void casts<true, float>(float*)", "casts<true, float>"),
        ("void autos<(int)3, (char)97>(int*)", "autos<(int)3, (char)97>"),
        ("void apply<main::{lambda(int)#1}>(float*)", "apply<main::{lambda(int)#1}>"),
        (f"void ns::{ANONYMOUS}::f<{ANONYMOUS}::S>({ANONYMOUS}::S)", f"ns::{ANONYMOUS}::f<{ANONYMOUS}::S>"),
        ("plain", "plain"),
        ("(anonymous names", "(anonymous names"),
    ],
)
def test_a_name_without_its_signature(demangled, name):
    assert drop_signature(demangled) == name
