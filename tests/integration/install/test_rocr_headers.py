"""ROCr headers of several ages: the first that fit are taken; without any, the build says why."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[3]
OTHER_PARTS = [f"-D{part}=disabled" for part in ("bindings", "cuda", "native_tests", "softgpu")]
HEADERS = ("hsa.h", "hsa_ven_amd_loader.h", "amd_hsa_queue.h", "amd_hsa_signal.h", "hsa_api_trace.h")


@pytest.fixture
def old_rocm(tmp_path: Path) -> Path:
    """A ROCm folder whose headers have the version of Debian 12's."""
    folder = tmp_path / "rocm-5.2"
    (folder / "include/hsa").mkdir(parents=True)
    for name in HEADERS:
        (folder / "include/hsa" / name).touch()
    (folder / "include/hsa/hsa_ext_amd.h").write_text(
        "#define HSA_AMD_INTERFACE_VERSION_MAJOR 1\n#define HSA_AMD_INTERFACE_VERSION_MINOR 0\n"
    )
    return folder


def hsa_left_out(build: Path, **variables: str) -> str:
    """Configure the project; why the HSA back end is left out, or nothing."""
    environment = os.environ | variables
    command = ["meson", "setup", str(build), str(SOURCES), *OTHER_PARTS]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return str(json.loads((build / "kerncap_stages/build.json").read_text())["hsa"])


def test_headers_that_are_too_old_give_way_to_later_ones(old_rocm: Path, tmp_path: Path) -> None:
    assert hsa_left_out(tmp_path / "build", ROCM_PATH=str(old_rocm)) == ""
    assert f"ROCr headers of ROCm 6.4 or later in {old_rocm}" in (
        tmp_path / "build/meson-logs/meson-log.txt"
    ).read_text(errors="replace")


def test_without_headers_that_fit_the_back_end_is_left_out_with_the_reason(
    old_rocm: Path, tmp_path: Path
) -> None:
    # The compiler's own options come first: it finds the old headers whatever folder is tried.
    reason = hsa_left_out(tmp_path / "build", ROCM_PATH=str(old_rocm), CXXFLAGS=f"-I{old_rocm}/include/hsa")
    assert "6.4" in reason
    assert f"{old_rocm}/include/hsa" in reason
