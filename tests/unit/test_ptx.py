"""What is read out of PTX: targets, kernels, and where their parameters lie."""

from __future__ import annotations

from pathlib import Path

import pytest

from kerncap_stages.code.fatbin import find_ptx
from kerncap_stages.code.ptx import find_entry_lines
from kerncap_stages.code.read import read_code_object
from kerncap_stages.errors import ArtifactError
from kerncap_stages.manifests.kernel import CodeObjectFormat

FATBIN = (Path(__file__).parents[1] / "golden/cuda/several.fatbin").read_bytes()

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


@pytest.mark.parametrize(
    "parameter",
    [
        ".param .b8 a[" + "9" * 5000 + "]",
        ".param .b8 a[99999999999999999999999]",
        ".param .align " + "9" * 5000 + " .b8 a[4]",
        ".param .u64 " + "a" * 60_000 + "!",
    ],
)
def test_a_parameter_without_measure_is_no_guess(parameter):
    with pytest.raises(ArtifactError, match="parameter of odd"):
        read_code_object(f".version 8.0\n.target sm_90\n.entry odd({parameter}) {{ ret; }}\n".encode())


@pytest.mark.parametrize(
    "text", ["\n" * 400_000, "/*a" * 200_000, " " * 400_000], ids=["lines", "comments", "spaces"]
)
def test_long_texts_of_little_are_read_in_time(text):
    facts = read_code_object(f".version 8.0\n.entry k() {{ ret; }}\n{text}".encode())
    assert set(facts.kernels) == {"k"}


def test_a_type_that_is_not_known_is_no_guess():
    with pytest.raises(ArtifactError, match=r"parameter of odd .*'\.param \.f80 x'"):
        read_code_object(b".version 8.0\n.target sm_90\n.entry odd(.param .f80 x) { ret; }\n")


def test_kernels_are_told_by_their_lines():
    assert find_entry_lines(PTX) == {"one": 4, "_Z3twov": 7, "none": 8, "mixed": 10}


def test_texts_that_have_the_kernel_are_taken_out_of_images():
    assert find_ptx([PTX, b".version 8.0\n.target sm_90\n"], "sm_90", "one") == [PTX]
    (text,) = find_ptx([FATBIN, PTX], "sm_100", "_Z5plainPfi")
    assert b".entry _Z5plainPfi" in text
    assert b"\0" not in text  # ptxas takes one for the end
    assert find_ptx([FATBIN], "sm_100", "_Z5otherPfi") == []
    assert find_ptx([FATBIN], "sm_80", "_Z5plainPfi") == []  # has machine code for it
    assert find_ptx([FATBIN[:400]], "sm_100", "_Z5plainPfi") == []
