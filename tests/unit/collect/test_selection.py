"""Patterns against mangled and demangled names."""

from __future__ import annotations

import pytest

from kerncap_stages.collect.protocol import Rule
from kerncap_stages.collect.selection import KernelRule, find_close_names, find_first_rule, strip_parameters
from kerncap_stages.errors import UsageError
from kerncap_stages.manifests.capture import NameMatch, Selection

NAME = "void mul_mat_q<(ggml_type)7, 32, true>(float const*, int)"
MANGLED = "_Z9mul_mat_qIL9ggml_type7ELi32ELb1EEvPKfi"


def rule(match, pattern, **more):
    return KernelRule.from_selection(Selection(match=match, pattern=pattern, **more))


@pytest.mark.parametrize(
    ("match", "pattern", "wanted"),
    [
        (NameMatch.SUBSTRING, "mul_mat_q", True),
        (NameMatch.SUBSTRING, "mul_mat_q<(ggml_type)7", True),
        (NameMatch.SUBSTRING, "mul_mat_q<(ggml_type)8", False),
        (NameMatch.SUBSTRING, MANGLED, True),
        (NameMatch.EXACT, NAME, True),
        (NameMatch.EXACT, "mul_mat_q<(ggml_type)7, 32, true>", True),
        (NameMatch.EXACT, "mul_mat_q", False),
        (NameMatch.MANGLED, MANGLED, True),
        (NameMatch.MANGLED, MANGLED + ".kd", True),
        (NameMatch.MANGLED, MANGLED[:-1], False),
        (NameMatch.REGEX, r"mat_q<.*true>\(", True),
        (NameMatch.REGEX, r"^mul", False),
        (NameMatch.ANY, None, True),
    ],
)
def test_a_pattern_wants_a_kernel(match, pattern, wanted):
    assert rule(match, pattern).wants(MANGLED, NAME) is wanted


def test_a_pattern_that_is_no_regular_expression_is_refused():
    with pytest.raises(UsageError, match="not a regular expression"):
        rule(NameMatch.REGEX, "(")


def test_the_first_rule_that_wants_a_kernel_gets_it():
    rules = [rule(NameMatch.EXACT, "b"), rule(NameMatch.SUBSTRING, "a"), rule(NameMatch.ANY, None)]
    assert [find_first_rule(rules, name, name) for name in ("b", "aa", "zz")] == [0, 1, 2]
    assert find_first_rule(rules[:2], "zz", "zz") is None


def test_the_library_is_told_numbers_and_shape():
    shape = {"grid_blocks": (4, 1, 1), "block_work_items": (64, 0, 0)}
    made = rule(NameMatch.ANY, None, dispatch=3, every=2, count=5, **shape).rule
    assert made == Rule(3, 2, 5, (4, 1, 1), (64, 0, 0))
    assert rule(NameMatch.ANY, None).rule == Rule(0, 1, 1, (0, 0, 0), (0, 0, 0))


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("scale(float*, int)", "scale"),
        ("void scale<float>(float*)", "scale<float>"),
        ("void f<void (*)(int)>(int)", "f<void (*)(int)>"),
        ("kernel", "kernel"),
        ("(anonymous namespace)::k(int*)", "(anonymous namespace)::k"),
        ("a::operator()(int) const", "a::operator()(int) const"),
    ],
)
def test_a_name_without_its_parameters(name, short):
    assert strip_parameters(name) == short


def test_names_that_come_close():
    names = ["void scale_rows<float>(float*)", "void scale_columns(float*)", "reduce(int*)"]
    assert find_close_names("scale", names)[0].startswith("scale_")
    assert "scale_rows<float>" in find_close_names("scale_row", names)
    assert find_close_names("xyzzy123", names) == []
