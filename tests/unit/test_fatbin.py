"""What is taken out of a fatbin of nvcc's: code for sm_80 and sm_90a, and packed PTX for sm_75."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncap_stages.code.architectures import runs_on
from kerncap_stages.code.offload_bundle import extract_code_object
from kerncap_stages.code.read import read_code_object
from kerncap_stages.errors import ArtifactError, Refused
from kerncap_stages.manifests.kernel import CodeObjectFormat

FATBIN = (Path(__file__).parents[1] / "golden/cuda/several.fatbin").read_bytes()


@pytest.mark.parametrize(
    ("gpu", "target", "form"),
    [
        ("sm_80", "sm_80", CodeObjectFormat.CUBIN),
        ("sm_86", "sm_80", CodeObjectFormat.CUBIN),
        ("sm_90", "sm_90a", CodeObjectFormat.CUBIN),
        ("sm_75", "sm_75", CodeObjectFormat.PTX),
        ("sm_100", "sm_75", CodeObjectFormat.PTX),
    ],
)
def test_what_runs_on_the_gpu_is_taken(gpu, target, form):
    facts = read_code_object(extract_code_object(FATBIN, gpu))
    assert (facts.isa, facts.format) == (target, form)
    assert [(slot.offset_bytes, slot.size_bytes) for slot in facts.kernels["_Z5plainPfi"].slots] == [
        (0, 8),
        (8, 4),
    ]


def test_a_gpu_that_nothing_is_for_is_refused_with_what_there_is():
    with pytest.raises(Refused, match="sm_70; it holds sm_80, sm_90a, PTX for sm_75"):
        extract_code_object(FATBIN, "sm_70")


@pytest.mark.parametrize("keep", [16, 40, 3000, len(FATBIN) - 1])
def test_a_fatbin_that_is_cut_short_is_damage(keep):
    with pytest.raises(ArtifactError, match="damaged fatbin"):
        extract_code_object(FATBIN[:keep], "sm_90")


@given(st.integers(4, len(FATBIN) - 1), st.integers(0, 255))
def test_a_changed_byte_ends_in_code_damage_or_refusal(at, value):
    changed = bytearray(FATBIN)
    changed[at] = value
    try:
        extract_code_object(bytes(changed), "sm_75")
    except (ArtifactError, Refused):
        return


@pytest.mark.parametrize(
    ("target", "gpu", "as_cubin", "as_ptx"),
    [
        ("sm_90", "sm_90", True, True),
        ("sm_80", "sm_86", True, True),
        ("sm_86", "sm_80", False, False),
        ("sm_80", "sm_90", False, True),
        ("sm_90a", "sm_90", True, True),
        ("sm_90a", "sm_100", False, False),
        ("sm_100f", "sm_103", True, True),
        ("sm_100f", "sm_120", False, False),
        ("gfx90a", "sm_90", False, False),
    ],
)
def test_what_runs_where(target, gpu, as_cubin, as_ptx):
    assert runs_on(target, gpu, is_ptx=False) == as_cubin
    assert runs_on(target, gpu, is_ptx=True) == as_ptx
