from pathlib import Path

from kerncap_stages.compilers.consulted import Consulted
from kerncap_stages.compilers.includes import find_included_files, list_include_folders, note_absent


def test_folders_come_in_the_order_of_search():
    flags = ["-isystem", "/s", "-I/a", "-iquote/q", "-I", "/b", "-DX"]
    assert list_include_folders(flags) == [Path("/q"), Path("/a"), Path("/b"), Path("/s")]


def test_follows_quotes_and_brackets_at_any_depth(tmp_path):
    (tmp_path / "inc").mkdir()
    (tmp_path / "k.hip").write_text('#include "a.h"\n# include <b.h>\n#include <hip/hip_runtime.h>\n')
    (tmp_path / "a.h").write_text('#include "inc/c.h"\n')
    (tmp_path / "inc/b.h").write_text("")
    (tmp_path / "inc/c.h").write_text('#include "a.h"\n')
    (tmp_path / "inc/a.h").write_text("")
    consulted = Consulted()
    found = find_included_files(tmp_path / "k.hip", [tmp_path / "inc"], consulted)
    names = ["a.h", "inc/a.h", "inc/b.h", "inc/c.h"]
    assert sorted(found) == [tmp_path / name for name in names]


def test_notes_every_place_that_would_have_been_taken_first(tmp_path):
    (tmp_path / "two").mkdir()
    (tmp_path / "two/h.h").write_text("")
    unit = tmp_path / "k.hip"
    unit.write_text('#include "h.h"\n#if __has_include(<config.h>)\n#endif\n')
    consulted = Consulted()
    note_absent([unit], [tmp_path / "one", tmp_path / "two", tmp_path / "three"], consulted)
    absent = {path for path, digest in consulted.digests.items() if digest is None}
    assert absent == {
        tmp_path / "h.h",
        tmp_path / "one/h.h",
        *(tmp_path / folder / "config.h" for folder in ("one", "two", "three")),
    }
