"""Where the documented interface finds a code object."""

from __future__ import annotations

import pytest

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
