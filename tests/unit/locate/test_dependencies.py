from pathlib import Path

import pytest

from kerncap_stages.compilers.dependencies import Headers, find_first_error, parse_make_rule


def test_reads_continued_lines_and_escapes():
    text = "k.o: k.hip \\\n  a\\ b.h $$c.h \\\n  d\\#e.h\nother: x\n"
    assert parse_make_rule(text) == [Path("k.hip"), Path("a b.h"), Path("$c.h"), Path("d#e.h")]


def test_an_empty_rule_has_no_prerequisites():
    assert parse_make_rule("k.o: \n") == []


def test_only_blanks_part_names():
    assert parse_make_rule("k.o: /w/a\tb/k.hip \\\n  /w/a\tb/k.h\n") == [
        Path("/w/a\tb/k.hip"),
        Path("/w/a\tb/k.h"),
    ]


INCLUDED = ["k.hip", "k.hpp", "/opt/i/lib/a.hpp", "/opt/i/lib/d/b.hpp", "/opt/i/cc/v"]


@pytest.mark.parametrize(
    ("definition", "local"),
    [
        ("/src/k.hpp", ["/src/k.hpp"]),
        ("/opt/i/lib/d/b.hpp", ["/src/k.hpp", "/opt/i/lib/a.hpp", "/opt/i/lib/d/b.hpp"]),
        ("/opt/i/cc/v", ["/src/k.hpp", "/opt/i/cc/v"]),
    ],
)
def test_of_the_toolchains_headers_the_definitions_library_is_local(definition, local):
    own = (Path("/opt/i"), Path("/opt/i/cc"))
    headers = Headers.from_prerequisites(
        [Path(path) for path in INCLUDED], Path("/src/k.hip"), Path("/src"), own
    )
    assert headers.list_local(Path(definition)) == [Path(path) for path in local]
    assert [path.name for path in headers.list_toolchain()] == ["a.hpp", "b.hpp", "v"]


@pytest.mark.parametrize(
    ("said", "first"),
    [
        ("In file included from /error/k.hip:2:\n/error/k.h:1:2: error: no\n", "/error/k.h:1:2: error: no"),
        ("k.cu(3): warning: a\nk.cu(4): error: b\n", "k.cu(4): error: b"),
        (
            "ptxas /tmp/x, line 7; error   : Unknown symbol\n",
            "ptxas /tmp/x, line 7; error   : Unknown symbol",
        ),
        ("warning: a\nan internal error\n", "an internal error"),
        ("Killed\n", "Killed"),
        ("", "it prints no message"),
    ],
)
def test_the_first_error_is_no_line_whose_path_has_that_word(said, first):
    assert find_first_error(said) == first
