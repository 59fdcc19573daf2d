"""Identifies what a replay depends on besides its inputs: device, driver, runtime, replayer, our own code."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.machine.own_code import stamp_code
from kerncap_stages.machine.softgpu import fall_back

if TYPE_CHECKING:
    from collections.abc import Collection

_PREFIXES = ("HSA_", "HIP_", "ROCR_", "CUDA_", "GPU_", "AMD_", "KERNCAP_SOFTGPU_", "KERNCAP_REPLAY_SCRUB")
_DRIVER_FILES = (
    "/sys/module/amdgpu/version",
    "/sys/module/amdgpu/srcversion",
    "/sys/module/nvidia/version",
    "/sys/class/kfd/kfd/topology/generation_id",
)
_DEVICE_FILES = ("/sys/class/kfd/kfd/topology/nodes", "properties")
_RUNTIMES = ("libhsa-runtime64.so.1", "libcuda.so.1", "libamd_comgr.so.3", "libamd_comgr.so.2")
_LIBRARY_FOLDERS = ("/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/opt/rocm/lib")


def identify_machine(architecture: str, ignored: Collection[str] = ()) -> str:
    """Return a digest that changes when another device, driver, runtime or replayer would run a capture.

    It also changes with the rest of this package's installed code.
    architecture: of the device that the capture was taken on. ignored: variables that do not count.
    """
    parts: list[str] = [os.uname().release, stamp_code()]
    environment = {**os.environ, **fall_back(os.environ, architecture)}
    preloaded = environment.get("LD_PRELOAD", "")
    parts += [
        f"{name}={value}"
        for name, value in sorted(environment.items())
        if name.startswith(_PREFIXES) and name not in ignored
    ]
    parts.append(preloaded)
    parts += [_read_text(Path(path)) for path in _DRIVER_FILES]
    nodes = Path(_DEVICE_FILES[0])
    if nodes.is_dir():
        parts += [_read_text(node / _DEVICE_FILES[1]) for node in sorted(nodes.iterdir())]
    folders = [*_LIBRARY_FOLDERS, os.path.join(os.environ.get("ROCM_PATH", "/opt/rocm"), "lib")]  # noqa: PTH118
    parts += [_stamp(Path(folder) / name) for folder in dict.fromkeys(folders) for name in _RUNTIMES]
    return hashlib.sha256("\0".join(parts).encode(errors="surrogateescape")).hexdigest()


def _read_text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _stamp(path: Path) -> str:
    """Return a file's path, size and modification time, which stand for its contents."""
    try:
        status = path.stat()
    except OSError:
        return f"no {path}"
    return f"{path.resolve()} {status.st_size} {status.st_mtime_ns}"
