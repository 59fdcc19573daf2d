"""Hides the GPUs that a CUDA replay does not need: the driver starts faster when it finds only one.

With several GPUs it prepares each of them: 330 ms on a machine with two H200s, and 134 ms with one of them.
"""

from __future__ import annotations

import os
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kerncap_stages.manifests import View
    from kerncap_stages.manifests.capture import Capture

VARIABLE = "CUDA_VISIBLE_DEVICES"
_ROOT = Path("/")


def choose_only_gpu(capture: Capture | View, root: Path = _ROOT) -> str | None:
    """Return what the variable has to be so that a replay sees only its GPU, as device 0.

    None if it cannot be told, or if there is one GPU anyway. If the user set the variable, the choice is
    one of those that the user named.
    root: of the file system, in which the kernel's part of the driver describes the GPUs.
    """
    index = capture.dispatch.device_index
    if capture.environment.backend != "cuda" or not _is_on_one(capture, index):
        return None
    chosen = os.environ.get(VARIABLE)
    if chosen is None:
        return _find_gpu(root, index)
    known = [each.strip() for each in chosen.split(",")]
    return known[index] if len(known) > max(1, index) and all(known) else None


def _is_on_one(capture: Capture | View, index: int) -> bool:
    used = {region.device_index for region in capture.regions}
    used |= {variable.device_index for variable in capture.module_variables}
    used |= {loaded.device_index for loaded in capture.loaded_code_objects}
    return used <= {index, None}


@cache
def _find_gpu(root: Path, index: int) -> str | None:
    """Return the name of a GPU by its number: if all are of one model, CUDA's order is that of their slots.

    The driver describes all GPUs of the machine. In a container CUDA finds those whose files can be opened.
    None if models differ, as CUDA then puts the fastest first, and if a GPU is divided (MIG). It takes up to
    20 ms, which each replay of a verdict would wait for.
    """
    driver = root / "proc/driver/nvidia"
    try:
        if next(driver.glob("capabilities/gpu*/mig/gi[0-9]*"), None) is not None:
            return None
        gpus = [dict(_read_lines(each.read_text())) for each in sorted(driver.glob("gpus/*/information"))]
        if len(gpus) < 2 or len({each["Model"] for each in gpus}) > 1:
            return None
        # Files are opened up to the GPU's only: the driver may have to wake a GPU for that.
        usable = (each for each in gpus if _can_open(root / f"dev/nvidia{int(each['Device Minor'])}"))
        name = next(islice(usable, index, None))["GPU UUID"]
    except (OSError, KeyError, ValueError, StopIteration):
        return None
    return name if name.startswith("GPU-") and "?" not in name else None


def _can_open(device: Path) -> bool:
    try:
        os.close(os.open(device, os.O_RDWR | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def _read_lines(text: str) -> list[tuple[str, str]]:
    parts = (line.partition(":") for line in text.splitlines())
    return [(name.strip(), value.strip()) for name, _, value in parts]
