"""Kernels that NVRTC compiles: recorded, and compiled by nvcc to the same instructions."""

from __future__ import annotations

import os
import subprocess
import sys

from cuda_captures import ARCH, publish_cuda
from cuda_projects import NEEDS_NVCC, make, project_of
from programs import SOURCES
from triton_package import install_once

from kerncap_stages.code.cubin import find_kernel_code
from kerncap_stages.collect.rtc_records import RtcRecords
from kerncap_stages.locate.locating import run_locate
from kerncap_stages.locate.options import Options
from kerncap_stages.machine.native_paths import find_native_file
from kerncap_stages.store import Store

pytestmark = NEEDS_NVCC
VERSION = "13.5.37"  # of the nvcc that the tests use


def test_a_kernel_becomes_a_project_of_its_own_source(tmp_path):
    (library,) = install_once("nvidia-cuda-nvrtc", VERSION).glob("nvidia/cu13/lib/libnvrtc.so.*")
    records = RtcRecords(tmp_path / "records")
    done = subprocess.run(
        [sys.executable, SOURCES / "rtc/nvrtc_program.py", library, ARCH, tmp_path / "cubin"],
        env={
            **os.environ,
            **records.make_environment({}),
            "LD_PRELOAD": str(find_native_file("libkerncap_rtc.so")),
        },
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    symbol, code = done.stdout.strip(), (tmp_path / "cubin").read_bytes()
    store = Store.open(tmp_path / "store")
    capture = publish_cuda(store, code, symbol, records=records)
    assert records.read_errors() == []
    source, found = run_locate(store, capture, Options())
    assert found.definition.path == "/nvrtc/blend.cu"
    assert found.unedited.same_instructions, found.unedited
    project = project_of(store, source, tmp_path / "project")
    assert make(project, "recompile").returncode == 0
    built = project / "optimized.cubin"
    assert find_kernel_code(built.read_bytes(), symbol) == find_kernel_code(code, symbol)
    kernel = project / "kernel_variant.cu"
    kernel.write_text(kernel.read_text().replace("* FACTOR", "- FACTOR"))
    done = make(project, "recompile")
    assert done.returncode == 0, done.stderr
    assert find_kernel_code(built.read_bytes(), symbol) != find_kernel_code(code, symbol)
