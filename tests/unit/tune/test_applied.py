"""What a winner added to the files of flags is taken out again."""

from __future__ import annotations

import pytest

from kerncap_stages.tune.applied import Applied

ADDED = b'"-DA=1"\n"-O2"\n'


@pytest.mark.parametrize(
    ("content", "left"),
    [
        (b'"-O3"\n' + ADDED, b'"-O3"\n'),
        (b'"-O3"' + ADDED, b'"-O3"'),
        (b'"-O3"\n' + ADDED + b'"-DMINE"\n', b'"-O3"\n"-DMINE"\n'),
        (ADDED, b""),
        (b'"-O3"\n"-DA=1"\n"-DMINE"\n"-O2"\n', b'"-O3"\n"-DA=1"\n"-DMINE"\n"-O2"\n'),
        (b'"-O3"\n', b'"-O3"\n'),
    ],
)
def test_it_is_left_out_also_before_lines_of_the_user(content, left):
    assert Applied({"f.rsp": ADDED.decode()}).remove_from("f.rsp", content) == left
    assert Applied().remove_from("f.rsp", content) == content
