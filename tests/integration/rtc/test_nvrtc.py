"""Kernels that NVRTC compiles: recorded, and compiled by nvcc to the same instructions."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest
from cuda_captures import ARCH, publish_cuda
from cuda_projects import NEEDS_NVCC, make, project_of
from programs import SOURCES
from triton_package import install_once

from kerncap_stages.code.cubin import find_kernel_code
from kerncap_stages.collect.rtc_records import RtcRecords
from kerncap_stages.compilers.nvrtc import NvrtcTool, find_nvrtc, keep_shaping_nvrtc_flags
from kerncap_stages.compilers.toolchains import choose_toolchain
from kerncap_stages.errors import DeviceError
from kerncap_stages.locate.locating import run_locate
from kerncap_stages.locate.options import Options
from kerncap_stages.locate.rtc import write_program
from kerncap_stages.machine.native_paths import find_native_file
from kerncap_stages.manifests import load_as
from kerncap_stages.manifests.capture import Capture
from kerncap_stages.store import Store

pytestmark = NEEDS_NVCC
VERSION = "13.5.37"  # of the nvcc that the tests use


def capture(folder, *words):
    """Record what the program compiles; returns the store, the capture, the symbol and the code."""
    (library,) = install_once("nvidia-cuda-nvrtc", VERSION).glob("nvidia/cu13/lib/libnvrtc.so.*")
    records = RtcRecords(folder / "records")
    done = subprocess.run(
        [sys.executable, SOURCES / "rtc/nvrtc_program.py", library, ARCH, folder / "cubin", *words],
        env={
            **os.environ,
            **records.make_environment({}),
            "LD_PRELOAD": str(find_native_file("libkerncap_rtc.so")),
        },
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    symbol, code = done.stdout.strip(), (folder / "cubin").read_bytes()
    store = Store.open(folder / "store")
    digest = publish_cuda(store, code, symbol, records=records)
    assert records.read_errors() == []
    return store, digest, symbol, code


def test_a_kernel_becomes_a_project_of_its_own_source(tmp_path):
    store, digest, symbol, code = capture(tmp_path)
    source, found = run_locate(store, digest, Options())
    assert found.definition.path == "/nvrtc/blend.cu"
    assert found.unedited.same_instructions, found.unedited
    assert found.compile_command.arguments[0].endswith("nvcc")
    project = project_of(store, source, tmp_path / "project")
    assert make(project, "recompile").returncode == 0
    built = project / "optimized.cubin"
    assert find_kernel_code(built.read_bytes(), symbol) == find_kernel_code(code, symbol)
    kernel = project / "kernel_variant.cu"
    kernel.write_text(kernel.read_text().replace("* FACTOR", "- FACTOR"))
    done = make(project, "recompile")
    assert done.returncode == 0, done.stderr
    assert find_kernel_code(built.read_bytes(), symbol) != find_kernel_code(code, symbol)


def test_a_source_that_nvcc_refuses_is_compiled_by_nvrtc(tmp_path):
    store, digest, symbol, code = capture(tmp_path, "alone")
    source, found = run_locate(store, digest, Options())
    assert found.unedited.same_instructions, found.unedited
    assert "libnvrtc.so" in found.compile_command.arguments[0]
    project = project_of(store, source, tmp_path / "project")
    done = make(project, "recompile")
    assert done.returncode == 0, done.stderr
    built = project / "optimized.cubin"
    assert find_kernel_code(built.read_bytes(), symbol) == find_kernel_code(code, symbol)
    kernel = project / "kernel_variant.cu"
    kernel.write_text(kernel.read_text().replace("x + x", "x * x"))
    assert make(project, "recompile").returncode == 0
    assert find_kernel_code(built.read_bytes(), symbol) != find_kernel_code(code, symbol)
    kernel.write_text(kernel.read_text().replace("x * x", "x * y"))
    done = make(project, "recompile")
    assert done.returncode != 0
    assert 'identifier "y" is undefined' in done.stderr
    assert not built.exists()


@pytest.mark.parametrize("words", [[], ["alone"]])
def test_the_script_of_projects_compiles_what_the_program_did(tmp_path, words):
    (library,) = install_once("nvidia-cuda-nvrtc", VERSION).glob("nvidia/cu13/lib/libnvrtc.so.*")
    store, digest, symbol, code = capture(tmp_path, *words)
    rtc = load_as(store, digest, Capture).kernel.rtc
    command = write_program(store, rtc, tmp_path, choose_toolchain(load_as(store, digest, Capture)))
    by_nvrtc = replace(command, arguments=(str(library), *command.arguments[1:]))
    flags = keep_shaping_nvrtc_flags(by_nvrtc)
    made = NvrtcTool(str(library)).compile_device_code(by_nvrtc.file, flags, tmp_path, ARCH)
    assert find_kernel_code(made, symbol) == find_kernel_code(code, symbol)


def test_a_library_of_a_capture_is_not_loaded_unless_it_is_roots(tmp_path):
    theirs = tmp_path / "libnvrtc.so.99"
    theirs.write_bytes(b"")
    if theirs.stat().st_uid == 0:
        os.chown(theirs, 1234, -1)
    with pytest.raises(DeviceError, match=r"there is no libnvrtc\.so\.99 of a toolkit"):
        find_nvrtc(str(theirs))
