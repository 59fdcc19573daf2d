"""Checks whether a variant can run in the place of the captured kernel inside the program.

A replay gives a variant all that it needs. In the program it gets what the program's runtime prepared for the
captured kernel: docs/decisions/0072-a-variant-in-the-program.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerncap_stages.errors import Refused
from kerncap_stages.manifests.environment import Backend
from kerncap_stages.replay.variant import explain_unfit
from kerncap_stages.text.formats import list_first

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kerncap_stages.code.kernel_facts import KernelFacts
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.replay.variant_shape import VariantShape

_MAX_NAMES = 5
_HINTS = {
    Backend.HSA: "keep the captured kernel's variables as they are; kc-validate judges the variant by itself",
    Backend.CUDA: "keep the captured kernel's variables as they are, and build a cubin: nvcc -cubin; "
    "kc-validate judges the variant by itself",
}
# What runtimes set from the launch, where a kernel asks for it.
_OF_THE_LAUNCH = ("hidden_block_count_", "hidden_group_size_", "hidden_remainder_", "hidden_grid_dims")


def require_fit(path: Path, capture: Capture, kernel: KernelFacts, unconnected: Sequence[str]) -> None:
    """Raise Refused if the program's runtime does not prepare what the variant needs.

    unconnected: why it cannot use variables of the program, if it cannot.
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
    if unconnected:
        raise Refused(
            f"{path}: the variant cannot use the program's variables: {'; '.join(unconnected[:_MAX_NAMES])}",
            hint=_HINTS[capture.environment.backend],
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


def _list_some(names: list[str]) -> str:
    return list_first(list(dict.fromkeys(names)), _MAX_NAMES)
