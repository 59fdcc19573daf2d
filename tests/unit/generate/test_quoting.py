import subprocess

import pytest

from kerncap_stages.errors import Refused
from kerncap_stages.generate.quoting import (
    quote_make_echo,
    quote_make_value,
    quote_markdown,
    read_target_name,
)

HOSTILE = [
    "plain",
    "a b",
    "$(shell touch pwned)",
    "${HOME}",
    "`touch pwned`",
    "'; touch pwned; '",
    'a"b',
    "a#b",
    "$$",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_make_variable_holds_the_text_itself(tmp_path, text):
    makefile = f"VALUE := {quote_make_value(text)}\nexport VALUE\nall:\n\t@printf '%s' \"$$VALUE\" > value\n"
    (tmp_path / "Makefile").write_text(makefile)
    subprocess.run(["make", "-s", "-C", tmp_path], check=True)
    assert (tmp_path / "value").read_text() == text
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize("text", [*HOSTILE, "a\nall: ; touch pwned", "tab\there"])
def test_an_echo_prints_and_runs_nothing(tmp_path, text):
    (tmp_path / "Makefile").write_text(f'all:\n\t@echo "{quote_make_echo(text)}"\n')
    subprocess.run(["make", "-s", "-C", tmp_path], check=True)
    assert not (tmp_path / "pwned").exists()


def test_a_line_break_is_no_make_value():
    with pytest.raises(ValueError, match="line break"):
        quote_make_value("a\nb")


def test_markdown_table_cells_hold_no_markup():
    assert quote_markdown("a|b`c\x1b[31m\n") == "a\\|b'c?[31m?"


def test_a_target_of_a_code_object_is_a_name():
    assert read_target_name("amdgcn-amd-amdhsa--gfx942:sramecc+:xnack-") == "gfx942:sramecc+:xnack-"
    assert read_target_name("sm_90a") == "sm_90a"
    for hostile in (*HOSTILE[1:], "sm_90;id", "sm_90\n", ""):
        with pytest.raises(Refused):
            read_target_name(hostile)
