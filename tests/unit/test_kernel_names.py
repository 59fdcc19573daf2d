"""Kernel names fit the room, and keep what tells them apart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncap_stages.text.kernel_names import shorten

ELEMENTWISE = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "
    "std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)"
)
SOFTMAX = "void (anonymous namespace)::softmax_warp_forward<float, 8, false>(float*, float const*, int)"
CONSTRAINED = "void add<float>(float*) requires ((sizeof (float))==(4))&&(std::floating_point<float>)"
GEMM = "Cijk_Ailk_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT64x48x128_MI16x16x1_SN_LDSB1_AFC1_AFEM1_ASEM1"


@pytest.mark.parametrize(
    ("name", "width", "expected"),
    [
        ("scale(float*, int)", 18, "scale(float*, int)"),
        ("scale(float*, int)", 17, "scale"),
        (ELEMENTWISE, 60, "at::native::vectorized_elementwise_kernel<4, at::n…*, 3ul> >"),
        (ELEMENTWISE, 45, "at::native::vectorized_elementwise_kernel<…>"),
        (ELEMENTWISE, 40, "native::vectorized_elementwise_kernel<…>"),
        (ELEMENTWISE, 33, "vectorized_elementwise_kernel<…>"),
        (SOFTMAX, 70, "(anonymous namespace)::softmax_warp_forward<float, 8, false>"),
        (SOFTMAX, 36, "softmax_warp_forward<float, … false>"),
        (SOFTMAX, 40, "softmax_warp_forward<float, 8, false>"),
        (CONSTRAINED, 28, "add<float>"),
        (GEMM, 21, "Cijk_Ailk_…FEM1_ASEM1"),
    ],
)
def test_what_goes_first_is_what_tells_least(name, width, expected):
    short = shorten(name, width)
    assert short == expected
    assert len(short) <= width


@given(name=st.text(alphabet="ab:<>()*, {}-[]", max_size=60), width=st.integers(1, 40))
def test_any_name_fits_any_width(name, width):
    short = shorten(name, width)
    assert len(short) <= width
    assert short == name or len(name) > width
