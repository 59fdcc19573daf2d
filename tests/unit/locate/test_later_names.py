"""Names that a file could find only because headers behind it are read before it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kerncap_stages.compilers.inclusions import Included
from kerncap_stages.compilers.later_names import UnknownNamesError, list_later_names, list_names


def make_unit(later: str, edited: tuple[str | Included, ...] = ("int own();",)) -> Included:
    """A unit that includes `before.hpp`, `edited.hpp` and `later.hpp`."""
    files = {"before.hpp": ("int early();",), "edited.hpp": edited, "later.hpp": tuple(later.split("\n"))}
    parts: list[str | Included] = [
        Included(Path("/src", name), f'#include "{name}"', 1, list(lines)) for name, lines in files.items()
    ]
    return Included(Path("/src/unit.hip"), parts=[*parts, "int of_unit();"])


def list_later(unit: Included) -> set[str]:
    return list_later_names(unit, Path("/src/edited.hpp"), {Path("/src/unit.hip"), Path("/src/edited.hpp")})


@pytest.mark.parametrize(
    ("later", "expected"),
    [
        ("namespace a {\ntemplate <class T> T f(T x) { int inner; return g(x); }\n}", {"a", "T", "f"}),
        ("struct s { int member; };", {"s"}),
        ("enum e { one, two };", {"e", "one", "two"}),
        ("using other = v<w>;", {"other", "v"}),
        ("static constexpr int size = 3;", {"size"}),
        ("#define MACRO(x) hidden(x)", {"MACRO"}),
        # What cannot be told counts as a whole.
        ("int f() { return g();", {"f", "g"}),
    ],
)
def test_declared_names_of_later_headers_are_listed(later: str, expected: set[str]) -> None:
    assert list_later(make_unit(later)) == expected


def test_what_a_file_includes_before_its_text_is_not_later() -> None:
    inner = Included(Path("/src/inner.hpp"), '#include "inner.hpp"', 1, ["int inner();"])
    assert list_later(make_unit("", (inner, "int own();"))) == set()
    assert list_later(make_unit("", ("int own();", inner))) == {"inner"}


def test_a_later_header_that_uses_a_namespace_is_refused() -> None:
    with pytest.raises(UnknownNamesError):
        list_later(make_unit("using namespace a;"))


def test_comments_strings_and_keywords_are_no_names() -> None:
    text = 'const auto x = "word"; // comment\n/* more */ __builtin_trap(); f("//", y);'
    assert list_names(text) == {"x", "f", "y"}
