"""What this machine has of what the stages need: GPUs, and tools that are looked for at run time."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.cupti import cupti_libraries
from kerncap_stages.source.nvcc import find_cuda_tool

if TYPE_CHECKING:
    from collections.abc import Iterator

_KFD_NODES = Path("/sys/class/kfd/kfd/topology/nodes")
# Each with what it is for.
_CUDA_TOOLS = {
    "nvcc": "rebuilds CUDA kernels",
    "ptxas": "rebuilds kernels that are edited as PTX",
    "cuobjdump": "takes PTX out of programs",
    "nvdisasm": "shows machine code",
}
_HIP_TOOLS = {"hipcc": "rebuilds HIP kernels"}
# cuda.h, CUdevice_attribute: COMPUTE_CAPABILITY_MAJOR and _MINOR.
_CAPABILITY = (75, 76)


def describe_machine() -> dict[str, list[dict[str, str | None]]]:
    """GPUs by name and architecture, and tools by purpose and place (None: not found)."""
    gpus = [*_amd_gpus(), *_nvidia_gpus()]
    tools = [_tool(name, purpose, shutil.which(name)) for name, purpose in _HIP_TOOLS.items()]
    tools += [_tool(name, purpose, find_cuda_tool(name)) for name, purpose in _CUDA_TOOLS.items()]
    cupti = next(cupti_libraries(os.environ), None)
    tools.append(_tool("CUPTI", "captures and profiles CUDA programs", None if cupti is None else str(cupti)))
    return {"gpus": gpus, "tools": tools}


def _tool(name: str, purpose: str, path: str | None) -> dict[str, str | None]:
    return {"name": name, "purpose": purpose, "path": path}


def _amd_gpus() -> Iterator[dict[str, str | None]]:
    """As the kernel's driver lists them."""
    for node in sorted(_KFD_NODES.glob("*/properties")):
        try:
            found = re.search(r"^gfx_target_version (\d+)$", node.read_text(), re.MULTILINE)
        except OSError:
            continue
        version = int(found[1]) if found else 0
        if version:  # a processor has none
            major, minor, step = version // 10000, version // 100 % 100, version % 100
            yield {"name": "AMD GPU", "architecture": f"gfx{major}{minor:x}{step:x}", "driver": "amdgpu"}


def _nvidia_gpus() -> Iterator[dict[str, str | None]]:
    """As the driver lists them, if there is one."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return
    version, count = ctypes.c_int(), ctypes.c_int()
    if (
        driver.cuDriverGetVersion(ctypes.byref(version))
        or driver.cuInit(0)
        or driver.cuDeviceGetCount(ctypes.byref(count))
    ):
        return
    for number in range(count.value):
        device, name = ctypes.c_int(), ctypes.create_string_buffer(256)
        capability = (ctypes.c_int(), ctypes.c_int())
        driver.cuDeviceGet(ctypes.byref(device), number)
        driver.cuDeviceGetName(name, len(name), device)
        for value, attribute in zip(capability, _CAPABILITY, strict=True):
            driver.cuDeviceGetAttribute(ctypes.byref(value), attribute, device)
        major, minor = version.value // 1000, version.value % 1000 // 10
        yield {
            "name": name.value.decode(errors="replace"),
            "architecture": f"sm_{capability[0].value}{capability[1].value}",
            "driver": f"of CUDA {major}.{minor}",
        }
