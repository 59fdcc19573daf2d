from pathlib import Path

from kerncap_stages.source.dependencies import parse_make_rule


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
