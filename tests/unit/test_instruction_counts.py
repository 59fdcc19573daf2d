"""Reading what the software GPU counted."""

from __future__ import annotations

import json

import pytest

from kerncap_stages.errors import ArtifactError
from kerncap_stages.machine.instruction_counts import read_counts

LINE = {
    "version": 1, "pid": 7, "target": "gfx942", "gpu": 0, "queue": 4096, "dispatch": 3,
    "kernel": "scale(int*)", "symbol": "_Z5scalePi",
    "grid_work_items": [128, 1, 1], "group_work_items": [64, 1, 1], "wave_instructions": 20,
    "by_class": {"salu": 8, "valu": 12},
}  # fmt: skip


def test_counts_come_in_the_order_of_the_file(tmp_path):
    path = tmp_path / "counts.jsonl"
    path.write_text(json.dumps(LINE) + "\n" + json.dumps(LINE | {"dispatch": 4}) + "\n")
    first, second = read_counts(path)
    assert (first.dispatch, second.dispatch) == (3, 4)
    assert first.grid_work_items == (128, 1, 1)
    assert first.by_class == {"salu": 8, "valu": 12}


@pytest.mark.parametrize("line", ["", "[]", "{", '{"version": 1}', json.dumps(LINE | {"more": 1})])
def test_line_that_is_no_count_is_named(tmp_path, line):
    path = tmp_path / "counts.jsonl"
    path.write_text(json.dumps(LINE) + "\n" + line + "\n")
    with pytest.raises(ArtifactError, match=r"counts\.jsonl:2"):
        read_counts(path)


def test_other_version_is_refused(tmp_path):
    path = tmp_path / "counts.jsonl"
    path.write_text(json.dumps(LINE | {"version": 2}) + "\n")
    with pytest.raises(ArtifactError, match="version 2"):
        read_counts(path)
