"""Describes the machine from facts of the capture library and the operating system."""

from __future__ import annotations

import json
import os
import platform
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.code.targets import parse_target
from kerncap_stages.collect.protocol import NO_DEVICE
from kerncap_stages.manifests.environment import Backend, Device, Environment, unquote_version

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kerncap_stages.collect import protocol


class Facts:
    """The facts that the capture library sent about the machine and its devices."""

    def __init__(self) -> None:
        self._by_scope: dict[int, dict[str, str]] = {}

    def add(self, sent: protocol.Facts) -> None:
        """Add facts about a device or about the machine."""
        self._by_scope.setdefault(sent.scope, {}).update({fact.key: fact.value for fact in sent.facts})

    @property
    def xnack(self) -> bool:
        """Whether devices can fault host pages in: kernels can then reach all host memory."""
        return self._by_scope.get(NO_DEVICE, {}).get("xnack") == "1"

    @property
    def is_software(self) -> bool:
        """Whether one of the devices is the software GPU."""
        return any(_is_software(facts) for facts in self._by_scope.values())

    def describe_environment(self, backend: Backend) -> Environment:
        """Describe the machine for a manifest."""
        machine = self._by_scope.get(NO_DEVICE, {})
        return Environment(
            recorded_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            backend=backend,
            operating_system=_read_operating_system(),
            kernel_release=platform.release(),
            driver_version=_read_driver_version(backend),
            runtime_version=unquote_version(machine.get("runtime_version")),
            toolkit_version=_read_toolkit_version(backend),
            devices=tuple(
                _describe_device(scope, facts)
                for scope, facts in sorted(self._by_scope.items())
                if scope != NO_DEVICE
            ),
        )


def _describe_device(index: int, facts: Mapping[str, str]) -> Device:
    isa = facts.get("isa", "unknown")
    target = parse_target(isa)
    return Device(
        index=index,
        name=facts.get("name", "unknown"),
        architecture=isa if target is None else target.processor,
        target=isa if target is None else str(target),
        isa=isa,
        uuid=facts.get("uuid"),
        pci_address=facts.get("pci_address"),
        memory_size_bytes=int(facts.get("memory_size_bytes", "0")),
        compute_units=int(facts.get("compute_units", "0")),
        wavefront_size=int(facts.get("wavefront_size", "64")),
        xnack=None if target is None else target.has_feature("xnack"),
        sramecc=None if target is None else target.has_feature("sramecc"),
        software=_is_software(facts),
    )


def _is_software(facts: Mapping[str, str]) -> bool:
    return "software" in facts.get("name", "").lower()


def _read_operating_system() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "Linux")
    except OSError:
        return "Linux"


def _read_driver_version(backend: Backend) -> str | None:
    if backend is Backend.CUDA:
        return _read_nvidia_driver_version()
    try:
        return Path("/sys/module/amdgpu/version").read_text(encoding="utf-8").strip()
    except OSError:
        return None


def _read_nvidia_driver_version() -> str | None:
    """Read the version from the kernel module's file; where that is missing, from the name of libcuda.so."""
    try:
        text = Path("/proc/driver/nvidia/version").read_text(encoding="utf-8")
    except OSError:
        text = ""
    found = re.search(r"Kernel Module.*?\s(\d+\.\d+(?:\.\d+)?)\s", text)
    if found:
        return found[1]
    for folder in ("/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/local/nvidia/lib64"):
        for path in Path(folder).glob("libcuda.so.[0-9]*.*"):
            return path.name.removeprefix("libcuda.so.")
    return None


def _read_toolkit_version(backend: Backend) -> str | None:
    if backend is Backend.CUDA:
        return _read_cuda_toolkit_version()
    folder = Path(os.environ.get("ROCM_PATH", "/opt/rocm"))
    try:
        return (folder / ".info" / "version").read_text(encoding="utf-8").strip()
    except OSError:
        return None


def _read_cuda_toolkit_version() -> str | None:
    folder = Path(os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH") or "/usr/local/cuda")
    try:
        found = json.loads((folder / "version.json").read_text(encoding="utf-8"))
        return str(found["cuda"]["version"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
