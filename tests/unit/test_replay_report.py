"""What is made of the native replayer's report."""

from __future__ import annotations

from pathlib import Path

import manifest_examples
import pytest

from kerncap_stages.errors import DeviceError, Refused, UsageError
from kerncap_stages.manifests.replay import ReplayOutcome
from kerncap_stages.replay.report import Mismatch, ReplayResult, interpret_report
from kerncap_stages.replay.result_lines import write_result_lines


def test_without_a_driver_the_next_step_is_another_machine():
    report = {
        "outcome": "failed",
        "code": "device",
        "message": "no NVIDIA driver: libcuda.so.1: no such file",
    }
    with pytest.raises(DeviceError) as raised:
        interpret_report(report, 4)
    assert "kc-store export" in raised.value.hint
    report["message"] = (
        "the CUDA driver does not start: CUDA_ERROR_NO_DEVICE (no CUDA-capable device is detected)"
    )
    with pytest.raises(DeviceError) as raised:
        interpret_report(report, 4)
    assert "kc-store export" in raised.value.hint
    report["message"] = "cuInit: CUDA_ERROR_UNKNOWN"
    with pytest.raises(DeviceError) as raised:
        interpret_report(report, 4)
    assert "kc-store export" not in raised.value.hint


@pytest.mark.parametrize(
    "message",
    [
        "ROCr is not here: libhsa-runtime64.so.1: cannot open shared object file",
        "this ROCr is too old: it has no hsa_amd_vmem_map",
    ],
)
def test_without_a_rocr_that_fits_the_next_step_is_a_newer_rocm(message):
    with pytest.raises(DeviceError) as raised:
        interpret_report({"outcome": "failed", "code": "device", "message": message}, 4)
    assert "ROCm 6.4 or later" in raised.value.hint


def test_a_variant_that_the_runtime_refuses_is_the_users_file():
    why = "loading the code object on a gfx90a: HSA_STATUS_ERROR_INVALID_CODE_OBJECT (4112)"
    report = {"outcome": "failed", "code": "invalid_argument"}
    with pytest.raises(
        UsageError, match=r"^fast.hsaco cannot be loaded: loading the code .* \(4112\)$"
    ) as raised:
        interpret_report(report | {"message": f"the variant cannot be loaded: {why}"}, 2, Path("fast.hsaco"))
    assert "rebuild it" in raised.value.hint
    newer = "loading the code on sm_90: CUDA_ERROR_UNSUPPORTED_PTX_VERSION"
    of_another = report | {"code": "unsupported", "message": f"the variant cannot be loaded: {newer}"}
    with pytest.raises(Refused, match=r"^fast.ptx cannot be loaded: .*VERSION$") as raised:
        interpret_report(of_another, 6, Path("fast.ptx"))
    assert "build it for this GPU" in raised.value.hint
    of_capture = report | {"code": "device", "message": f"the captured code object cannot be loaded: {why}"}
    with pytest.raises(DeviceError, match="the captured code object") as raised:
        interpret_report(of_capture, 4, Path("fast.hsaco"))
    assert "rebuild" not in raised.value.hint
    assert "captured with" in raised.value.hint


def test_where_the_captured_kernel_gives_something_else_the_next_step_is_a_validation():
    found = ReplayResult(ReplayOutcome.COMPLETED, compared=True, mismatches=(Mismatch("", 4096, 3, 2),))
    made = manifest_examples.replay().model_copy(update={"matches_golden": False})
    of_variant, of_itself = (
        list(write_result_lines(made.model_copy(update={"variant": variant}), found))
        for variant in (made.variant, None)
    )
    assert "  region 0x1000: 2 bytes differ, the first at +0x3" in of_variant
    assert of_itself == [*of_variant, of_itself[-1]]
    assert "kc-validate" in of_itself[-1]


def test_other_results_that_are_right_are_not_called_wrong():
    found = ReplayResult(ReplayOutcome.COMPLETED, compared=True, mismatches=(Mismatch("", 4096, 3, 2),))
    made = manifest_examples.replay().model_copy(update={"matches_golden": False})
    lines = list(write_result_lines(made, found, "within the bounds of verdict 0123456789ab"))
    (said,) = (line for line in lines if "as after the captured dispatch" in line)
    assert said == (
        "within the bounds of verdict 0123456789ab, though not the same bytes as after the captured dispatch:"
    )
    assert "  region 0x1000: 2 bytes differ, the first at +0x3" in lines
