"""Describe this machine: its GPUs, and the tools that stages look for at run time."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.compilers.cuda_tools import find_cuda_tool
from kerncap_stages.compilers.installed import find_compiler
from kerncap_stages.compilers.llvm_tools import find_llvm_tool
from kerncap_stages.errors import DeviceError
from kerncap_stages.machine.cupti import choose_cupti_paths
from kerncap_stages.machine.softgpu import is_loaded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_KFD_NODES = Path("/sys/class/kfd/kfd/topology/nodes")
# Each tool with its purpose.
_CUDA_TOOLS = {
    "nvcc": "rebuilds CUDA kernels",
    "ptxas": "rebuilds kernels that are edited as PTX",
    "cuobjdump": "takes PTX out of programs",
    "nvdisasm": "shows machine code",
}
_LLVM_TOOLS = {
    "clang": ("what hipcc runs", lambda: find_compiler("hipcc").path),
    "llvm-objdump": ("shows instructions of AMD GPUs", lambda: find_llvm_tool("llvm-objdump")),
    "llvm-mc": ("assembles edited instructions", lambda: find_llvm_tool("llvm-mc")),
}
# cuda.h, CUdevice_attribute: COMPUTE_CAPABILITY_MAJOR and _MINOR.
_CAPABILITY = (75, 76)


def describe_machine() -> dict[str, list[dict[str, str | None]]]:
    """List GPUs by name and architecture, and tools by purpose and path (None: not found)."""
    gpus = [*_list_amd_gpus(), *_list_nvidia_gpus()]
    tools = [
        _describe_tool("hipcc", "rebuilds HIP kernels", _find_hip_compiler()),
        *(_describe_tool(name, purpose, _try_to_find(find)) for name, (purpose, find) in _LLVM_TOOLS.items()),
        *(_describe_tool(name, purpose, find_cuda_tool(name)) for name, purpose in _CUDA_TOOLS.items()),
        _describe_tool("CUPTI", "captures and profiles CUDA programs", _find_cupti()),
    ]
    return {"gpus": gpus, "tools": tools}


def _describe_tool(name: str, purpose: str, path: str | None) -> dict[str, str | None]:
    return {"name": name, "purpose": purpose, "path": path}


def _find_hip_compiler() -> str | None:
    """Find hipcc, or the clang that is used if there is no hipcc."""
    return shutil.which("hipcc") or _try_to_find(lambda: find_compiler("hipcc").path)


def _try_to_find(find: Callable[[], str]) -> str | None:
    try:
        return find()
    except DeviceError:
        return None


def _find_cupti() -> str | None:
    return next((path for path in choose_cupti_paths(os.environ).split(":") if Path(path).is_file()), None)


def _list_amd_gpus() -> Iterator[dict[str, str | None]]:
    """List the GPUs of the kernel's driver."""
    for node in sorted(_KFD_NODES.glob("*/properties")):
        try:
            found = re.search(r"^gfx_target_version (\d+)$", node.read_text(), re.MULTILINE)
        except OSError:
            continue
        version = int(found[1]) if found else 0
        if version:  # it is 0 for a processor
            major, minor, step = version // 10000, version // 100 % 100, version % 100
            name = "software GPU" if is_loaded() else "AMD GPU"
            yield {"name": name, "architecture": f"gfx{major}{minor:x}{step:x}", "driver": "amdgpu"}


def _list_nvidia_gpus() -> list[dict[str, str | None]]:
    """List the driver's GPUs; an empty list if the driver is missing, is not a driver, or does not answer."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
        version = _call(driver.cuDriverGetVersion)
        if driver.cuInit(0) != 0:
            return []
        count = _call(driver.cuDeviceGetCount)
        return [_describe_nvidia_gpu(driver, version, number) for number in range(count)]
    except (OSError, AttributeError):
        return []


def _describe_nvidia_gpu(driver: ctypes.CDLL, version: int, number: int) -> dict[str, str | None]:
    device, name = ctypes.c_int(number), ctypes.create_string_buffer(256)
    if driver.cuDeviceGetName(name, len(name), device) != 0:
        raise OSError(f"GPU {number} does not answer")
    major, minor = (_call(driver.cuDeviceGetAttribute, attribute, device) for attribute in _CAPABILITY)
    return {
        "name": name.value.decode(errors="replace"),
        "architecture": f"sm_{major}{minor}",
        "driver": f"of CUDA {version // 1000}.{version % 1000 // 10}",
    }


def _call(function: Callable[..., int], *more: object) -> int:
    """Return the number that a driver call writes to its first argument. Raises OSError if the call fails."""
    value = ctypes.c_int()
    if function(ctypes.byref(value), *more) != 0:
        raise OSError("the driver does not answer")
    return value.value
