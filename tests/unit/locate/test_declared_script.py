"""What a file declares outside of functions and classes: an edit of anything else leaves it the same."""

from __future__ import annotations

import pytest

from kerncap_stages.compilers.declared_script import digest_declared, list_declared

TEXT = """#pragma once
#define STEP 1
namespace outer { inline namespace inner {
template <class T> struct box { T value; friend bool operator==(box, box) { return true; } };
}
extern "C" { int plain(int n); }
int table[] = {1, 2}, *other;  // }
constexpr int two() { return 2; }
auto three() { return 3; }
const char* text() { return "}" R"-(})-" "\\"}"; }
int big() { return 1'000 + '{' + '\\''; }
template <class T> __global__ void __launch_bounds__(256, 2) kernel(T* x) {
#pragma unroll 4
  for (int i = 0; i < 4; ++i) { x[i] += STEP; }
}
}
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("x[i] += STEP", "x[i] += STEP + two()"),
        ("#pragma unroll 4", "#pragma unroll 8"),
        ("x[i] += STEP;", "x[i] += STEP; /* { */"),
        ("x[i] += STEP;", 'x[i] += STEP; const char* t = "{";'),
        ("T value;", "T value; void more() { if (value) {} }"),
        ("1'000", "2'000"),
        ("__launch_bounds__(256, 2)", "__launch_bounds__(384)"),
        (" __launch_bounds__(256, 2)", ""),
        ("namespace outer {", "namespace   outer /* here */ {"),
    ],
)
def test_an_edit_that_declares_nothing(old: str, new: str):
    assert TEXT.count(old) == 1
    assert digest_declared(TEXT.replace(old, new)) == digest_declared(TEXT)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("int plain(int n);", "int plain(int n); int plain(float x);"),
        ("namespace outer {", "namespace outer { void more() {}"),
        ("return 2;", "return 1;"),
        ("return 3;", "return 3.0;"),
        ("#define STEP 1", "#define STEP 2"),
        ("kernel(T* x)", "kernel(T* x, int n)"),
        ("__launch_bounds__(256, 2)", "__attribute__((device))"),
        ("#pragma unroll 4", "#define STEP 4"),
        ("#pragma unroll 4", "#if STEP"),
        ("inline namespace inner", "inline namespace other"),
        # Braces that do not pair up: any change counts.
        ("#pragma unroll 4", "{"),
        ("#pragma unroll 4", "}"),
    ],
)
def test_an_edit_that_may_declare_something(old: str, new: str):
    assert TEXT.count(old) == 1
    assert digest_declared(TEXT.replace(old, new)) != digest_declared(TEXT)


def test_text_whose_braces_do_not_pair_up_counts_as_a_whole():
    open_brace = TEXT + "{"
    assert digest_declared(open_brace) != digest_declared(open_brace.replace("STEP;", "STEP ;"))


def test_namespaces_are_pieces_of_their_own():
    pieces = [piece for piece in list_declared(TEXT) if piece.endswith(" {") or piece == "}"]
    assert pieces == ["namespace outer {", "inline namespace inner {", "}", 'extern "C" {', "}", "}"]
