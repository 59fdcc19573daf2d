"""What arguments of the documented interface mean."""

from __future__ import annotations

import pytest

from kerncap_stages.compat.arguments import read_macros
from kerncap_stages.compat.projects import find_variant
from kerncap_stages.errors import UsageError


@pytest.mark.parametrize("made", ["optimized.hsaco", "optimized.cubin", "optimized.ptx"])
def test_what_was_built_is_found_by_its_documented_name(tmp_path, made):
    (tmp_path / made).write_bytes(b"code")
    assert find_variant(tmp_path, "optimized.hsaco") == tmp_path / made


def test_other_names_are_taken_as_they_are(tmp_path):
    (tmp_path / "optimized.cubin").write_bytes(b"code")
    assert find_variant(tmp_path, None) is None
    for name in ("optimized.ptx", "candidate.hsaco"):
        with pytest.raises(UsageError, match="no such code object"):
            find_variant(tmp_path, name)


@pytest.mark.parametrize("given", ["FAST=1", "-DFAST=1", "-D FAST=1"])
def test_a_macro_may_be_given_as_a_compiler_takes_it(given):
    assert read_macros([given, "DEBUG"]) == ("FAST=1", "DEBUG")
