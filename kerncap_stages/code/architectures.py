"""Tells which code runs on which NVIDIA GPU."""

from __future__ import annotations

import re

_NAME = re.compile(r"sm_(\d+)([a-z]?)")


def runs_on(target: str, gpu: str, *, is_ptx: bool) -> bool:
    """Whether code for a target (``sm_90a``) runs on a GPU (``sm_90``).

    A cubin runs on GPUs of the same generation that are not older. PTX runs on all GPUs that are not older.
    Code for one GPU only (``a``) runs on no other; code for a family (``f``) runs on GPUs of its generation.
    """
    code, device = _NAME.fullmatch(target), _NAME.fullmatch(gpu)
    if code is None or device is None:
        return False
    wanted, here = int(code[1]), int(device[1])
    if code[2] == "a":
        return wanted == here
    same_generation = wanted // 10 == here // 10
    return wanted <= here and (same_generation or (is_ptx and code[2] != "f"))
