"""Checks whether a variant can run in the place of the captured kernel inside the program.

A replay gives a variant all that it needs. In the program it gets what the program's runtime prepared for the
captured kernel: docs/decisions/0072-a-variant-in-the-program.md.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from kerncap_stages.code.code_object import list_writable_data, read_function
from kerncap_stages.code.kernel_facts import strip_unit
from kerncap_stages.errors import Refused
from kerncap_stages.replay.variant import explain_unfit

if TYPE_CHECKING:
    from pathlib import Path

    from kerncap_stages.code.kernel_facts import KernelFacts
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.replay.variant_shape import VariantShape

_MAX_NAMES = 5
# What runtimes set from the launch, where a kernel asks for it.
_OF_THE_LAUNCH = ("hidden_block_count_", "hidden_group_size_", "hidden_remainder_", "hidden_grid_dims")
# s_getpc_b64 of GFX9, GFX10 and from GFX11 on, without its destination: only relative to the program counter
# does code find its variables and functions.
_GETPC = (0xBE801C00, 0xBE801F00, 0xBE804700)
_GETPC_MASK = np.uint32(0xFF80FFFF)
_NUMBER = re.compile(r"\.\d+$")  # the linker's, of static variables with one name


def require_fit(path: Path, capture: Capture, kernel: KernelFacts, code: bytes, captured: bytes) -> None:
    """Raise Refused if the program's runtime does not prepare what the variant needs.

    code, captured: the variant's code object and the captured one. Both are for an AMD GPU.
    """
    ours = {(slot.value_kind, slot.offset_bytes, slot.size_bytes) for slot in capture.kernel.slots}
    missing = [
        slot.value_kind
        for slot in kernel.slots
        if slot.is_hidden and (slot.value_kind, slot.offset_bytes, slot.size_bytes) not in ours
    ]
    if missing:
        raise Refused(
            f"{path}: the variant takes hidden arguments that the program does not pass to the captured "
            f"kernel: {_list_some(missing)}",
            hint="use in the variant only what the captured kernel uses: printf, assert, malloc, blockDim "
            "and gridDim take such arguments",
        )
    if kernel.uses_dynamic_stack and not capture.kernel.uses_dynamic_stack:
        raise Refused(
            f"{path}: the variant needs a stack of unknown size, and the captured kernel does not",
            hint="recursion and calls through pointers need one: leave them out",
        )
    if names := find_shared_variables(kernel, code, captured):
        raise Refused(
            f"{path}: the variant may use variables of which the program has its own: {_list_some(names)}",
            hint="kc-run does not connect them; kc-validate and kc-replay do",
        )


def require_shape(path: Path, capture: Capture, kernel: KernelFacts, shape: VariantShape | None) -> None:
    """Raise Refused if the variant cannot be launched in the captured launch, or in the one beside it."""
    block = capture.launch.block_work_items if shape is None else shape.resolve(capture.launch)[1]
    if (why := explain_unfit(kernel, block)) is not None:
        raise Refused(f"{path}: {why}", hint=f"{path.stem}.shape.json beside it may give another launch")
    reads = [slot.value_kind for slot in kernel.slots if slot.value_kind.startswith(_OF_THE_LAUNCH)]
    if shape is not None and shape.resolve(capture.launch)[:2] != _captured_shape(capture) and reads:
        raise Refused(
            f"{path}: the variant has a launch of its own, and takes the launch's shape from hidden "
            f"arguments that the program sets: {_list_some(reads)}",
            hint="a kernel whose block size is a constant does not need them: __launch_bounds__, "
            "reqd_work_group_size",
        )


def _captured_shape(capture: Capture) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    return capture.launch.grid_work_items, capture.launch.block_work_items


def find_shared_variables(kernel: KernelFacts, code: bytes, captured: bytes) -> list[str]:
    """Return the variables of the captured code object that a variant has, too, and may use.

    The runtime would give the variant variables of its own. Constant tables are the same in both.
    """
    if not _uses_addresses(read_function(code, kernel.symbol)):
        return []
    theirs = {_plain(each.name) for each in list_writable_data(captured)}
    return sorted({_plain(each.name) for each in list_writable_data(code)} & theirs)


def _uses_addresses(instructions: bytes) -> bool:
    """Whether a kernel may compute an address of its code object: data that looks so counts, too."""
    words = np.frombuffer(instructions[: len(instructions) // 4 * 4], dtype="<u4")
    return not words.size or bool(np.isin(words & _GETPC_MASK, _GETPC).any())


def _plain(name: str) -> str:
    return strip_unit(_NUMBER.sub("", name))


def _list_some(names: list[str]) -> str:
    shown = list(dict.fromkeys(names))
    rest = len(shown) - _MAX_NAMES
    return ", ".join(shown[:_MAX_NAMES]) + (f" and {rest} more" if rest > 0 else "")
