"""The file beside a variant that says how it is launched."""

from __future__ import annotations

import os
from pathlib import Path

import manifest_examples
import pytest

from kerncap_stages.errors import UsageError
from kerncap_stages.replay.variant_shape import VariantShape, count_work_items, find_variant_shape


def test_a_variant_without_the_file_has_no_shape(tmp_path: Path):
    assert find_variant_shape(tmp_path / "candidate.hsaco") is None


def test_where_no_such_file_can_be_there_is_no_shape(tmp_path: Path):
    longest = tmp_path / ("n" * 249 + ".hsaco")
    longest.touch()
    for variant in (longest, Path(), Path("/")):
        assert find_variant_shape(variant) is None


def test_the_file_has_the_variants_name(tmp_path: Path):
    (tmp_path / "a.v2.shape.json").write_text('{"grid_blocks": [8, 2, 1], "dynamic_lds_bytes": 0}')
    assert find_variant_shape(tmp_path / "a.v2.hsaco") == VariantShape((8, 2, 1), None, 0)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[1]",
        '{"grid": [1, 1, 1]}',
        '{"grid_blocks": [1, 1]}',
        '{"grid_blocks": [0, 1, 1]}',
        '{"grid_blocks": "8,1,1"}',
        '{"block_work_items": [1024, 2, 1]}',
        '{"block_work_items": [1.5, 1, 1]}',
        '{"dynamic_lds_bytes": -1}',
        '{"dynamic_lds_bytes": true}',
        "[" * 100_000,
        "\xff",
    ],
)
def test_what_is_no_shape_is_refused_by_the_files_name(tmp_path: Path, text: str):
    (tmp_path / "candidate.shape.json").write_text(text, encoding="latin-1")
    with pytest.raises(UsageError, match=r"candidate\.shape\.json does not say how to launch") as refused:
        find_variant_shape(tmp_path / "candidate.hsaco")
    assert "grid_blocks" in (refused.value.hint or "")


def test_a_grid_that_no_packet_can_hold_is_refused():
    assert count_work_items((8, 2, 1), (64, 2, 1)) == (512, 4, 1)
    with pytest.raises(UsageError, match="at most 4294967295"):
        count_work_items((2**31, 1, 1), (256, 1, 1))


def test_a_pipe_in_its_place_is_refused(tmp_path: Path):
    os.mkfifo(tmp_path / "candidate.shape.json")
    with pytest.raises(UsageError, match="not a regular file"):
        find_variant_shape(tmp_path / "candidate.hsaco")


def test_another_block_keeps_the_number_of_blocks():
    launch = manifest_examples.capture().launch  # 4 blocks of 256, 1,000 work-items
    assert VariantShape(block_work_items=(64, 1, 1)).resolve(launch)[:2] == ((256, 1, 1), (64, 1, 1))
    assert VariantShape(dynamic_lds_bytes=0).resolve(launch) == ((1000, 1, 1), (256, 1, 1), 0)
