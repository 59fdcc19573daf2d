"""The command that builds an edited project."""

from __future__ import annotations

import pytest

from kerncap_stages.project.built import suggest_build


@pytest.mark.parametrize(
    ("edited", "target"),
    [
        ("kernel_variant.cpp", "recompile"),
        ("kernel_variant.s", "assemble"),
        ("kernel_variant.ptx", "assemble"),
    ],
)
def test_edited_instructions_are_assembled_and_sources_recompiled(tmp_path, edited, target):
    assert suggest_build(tmp_path, ["deps/common.hpp", edited]) == f"`make -C {tmp_path} {target}`"
