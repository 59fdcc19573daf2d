"""Hides the GPUs that a CUDA replay does not need: the driver starts faster when it finds only one.

With several GPUs it prepares each of them: 330 ms on a machine with two H200s, and 134 ms with one of them.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kerncap_stages.manifests import View
    from kerncap_stages.manifests.capture import Capture

VARIABLE = "CUDA_VISIBLE_DEVICES"
_DRIVER = Path("/proc/driver/nvidia")


def choose_only_gpu(capture: Capture | View, driver: Path = _DRIVER) -> str | None:
    """Return what the variable has to be so that a replay sees only its GPU, as device 0.

    None if it cannot be told, or if there is one GPU anyway. If the user set the variable, the choice is
    one of those that the user named.
    driver: the folder in which the kernel's part of the driver describes the GPUs.
    """
    index = capture.dispatch.device_index
    if capture.environment.backend != "cuda" or not _is_on_one(capture, index):
        return None
    chosen = os.environ.get(VARIABLE)
    known = _list_gpus(driver) if chosen is None else [each.strip() for each in chosen.split(",")]
    return known[index] if len(known) > max(1, index) and all(known) else None


def _is_on_one(capture: Capture | View, index: int) -> bool:
    used = {region.device_index for region in capture.regions}
    used |= {variable.device_index for variable in capture.module_variables}
    used |= {loaded.device_index for loaded in capture.loaded_code_objects}
    return used <= {index, None}


def _list_gpus(driver: Path) -> list[str]:
    """List the names of GPUs in CUDA's order: if they are of one model, that is the order of their slots.

    Empty if models differ, as CUDA then puts the fastest first, and if a GPU is divided (MIG).
    """
    try:
        if next(driver.glob("capabilities/gpu*/mig/gi[0-9]*"), None) is not None:
            return []
        files = sorted(driver.glob("gpus/*/information"))
        facts = [dict(_read_lines(each.read_text())) for each in files]
    except OSError:
        return []
    names = [each.get("GPU UUID", "") for each in facts]
    is_known = all(name.startswith("GPU-") and "?" not in name for name in names)
    return names if is_known and len({each.get("Model") for each in facts}) == 1 else []


def _read_lines(text: str) -> list[tuple[str, str]]:
    parts = (line.partition(":") for line in text.splitlines())
    return [(name.strip(), value.strip()) for name, _, value in parts]
