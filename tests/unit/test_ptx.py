"""What is read out of PTX: targets, kernels, and where their parameters lie."""

from __future__ import annotations

import pytest

from kerncap_stages.code_object import read_code_object
from kerncap_stages.errors import ArtifactError
from kerncap_stages.manifests.kernel import CodeObjectFormat

PTX = b"""// made by hand
.version 8.0
.target sm_90a
.visible .entry one(
)
{ ret; }
.entry _Z3twov() { ret; }
.entry none { ret; }
/* .entry not_one(.param .u64 p) */
.visible .entry mixed(
\t.param .u8 mixed_param_0, // a comment, with a comma
\t.param .u64 .ptr .global .align 16 mixed_param_1,
\t.param .align 16 .b8 mixed_param_2[20],
\t.param .f16 mixed_param_3,
\t.param .u64 .samplerref mixed_param_4,
\t.param .b32 mixed_param_5[3]
)
.maxntid 128, 1, 1
{ ret; }
"""


def test_ptx_tells_target_and_names():
    facts = read_code_object(PTX)
    assert (facts.isa, facts.format) == ("sm_90a", CodeObjectFormat.PTX)
    assert set(facts.kernels) == {"one", "_Z3twov", "none", "mixed"}


def test_parameters_lie_at_multiples_of_their_alignment():
    kernels = read_code_object(PTX).kernels
    places = [(slot.offset_bytes, slot.size_bytes) for slot in kernels["mixed"].slots]
    assert places == [(0, 1), (8, 8), (16, 20), (36, 2), (40, 8), (48, 12)]
    assert kernels["mixed"].kernarg_size_bytes == 60
    assert kernels["one"].slots == kernels["none"].slots == ()


def test_a_type_that_is_not_known_is_no_guess():
    with pytest.raises(ArtifactError, match=r"parameter of odd .*'\.param \.f80 x'"):
        read_code_object(b".version 8.0\n.target sm_90\n.entry odd(.param .f80 x) { ret; }\n")
