"""What is made of the native replayer's report."""

from __future__ import annotations

import pytest

from kerncap_stages.errors import DeviceError
from kerncap_stages.replaying.report import told


def test_without_a_driver_the_next_step_is_another_machine():
    report = {
        "outcome": "failed",
        "code": "device",
        "message": "no NVIDIA driver: libcuda.so.1: no such file",
    }
    with pytest.raises(DeviceError) as raised:
        told(report, 4)
    assert "kc-store export" in raised.value.hint
    report["message"] = "cuInit: CUDA_ERROR_UNKNOWN"
    with pytest.raises(DeviceError) as raised:
        told(report, 4)
    assert "kc-store export" not in raised.value.hint
