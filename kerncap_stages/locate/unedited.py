"""Checks whether the unedited source compiles to the captured instructions, and finds reasons if it does not.

This matters to a user who times an edit against the captured kernel: other flags than the program's change
the instructions without any edit.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kerncap_stages.code.constant_addresses import has_same_code
from kerncap_stages.code.read import read_code_object
from kerncap_stages.errors import ArtifactError, DeviceError
from kerncap_stages.locate.trials import compile_device_code, try_shortcuts
from kerncap_stages.manifests.source import Unedited

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from kerncap_stages.code.kernel_facts import KernelFacts
    from kerncap_stages.compilers.compile_commands import CompileCommand
    from kerncap_stages.compilers.precompiled import Precompiled
    from kerncap_stages.locate.wanted import Wanted

_MAX_TRIAL_S = 15.0  # a unit that takes longer is not compiled again with other flags


@dataclass(frozen=True)
class Comparison:
    """``precompiled``: headers that can be parsed before, if they leave the instructions the same."""

    unedited: Unedited
    precompiled: Precompiled | None = None


def compare_unedited(
    command: CompileCommand | None, wanted: Wanted, edited: Path, newer: Sequence[Path] = ()
) -> Comparison:
    """Compile a unit with its command, and compare the kernel's instructions with the captured ones.

    edited: the file that has the kernel.
    newer: files of the unit that were changed after the program was built.
    """
    if command is None:
        return Comparison(Unedited(same_instructions=None, why="no compile command is known"))
    captured = wanted.toolchain.read_kernel_code(wanted.code_object, wanted.symbol)
    why_whole = None
    try:
        for shortcut in () if captured is None else try_shortcuts(command, wanted, edited):
            code, alone = shortcut.code, shortcut.one_kernel
            if code is not None and (
                captured == wanted.toolchain.read_kernel_code(code, wanted.symbol_alone)
                or (alone and has_same_code(wanted.code_object, wanted.symbol, code, wanted.symbol_alone))
            ):
                unedited = Unedited(
                    same_instructions=True,
                    one_kernel=alone,
                    whole_unit_because=None if alone else why_whole,
                )
                return Comparison(unedited, shortcut.precompiled)
            if alone:
                why_whole = shortcut.problem or "without its other kernels it has other instructions"
    except (ArtifactError, DeviceError) as error:
        why_whole = str(error)
    return Comparison(_compare_whole(command, wanted, captured, why_whole, newer))


def _compare_whole(
    command: CompileCommand,
    wanted: Wanted,
    captured: bytes | None,
    why_whole: str | None,
    newer: Sequence[Path],
) -> Unedited:
    """Compare as ``compare_unedited``, as the build compiles the unit."""
    toolchain = wanted.toolchain
    started = time.monotonic()
    try:
        made = compile_device_code(command, wanted)
    except DeviceError as error:
        return Unedited(same_instructions=None, why=str(error))
    took_s = time.monotonic() - started
    if made is None:
        return Unedited(same_instructions=None, why="the compiler makes PTX, which has no instructions")
    if captured is None:
        return Unedited(same_instructions=None, why="the captured code object does not name its functions")
    code = toolchain.read_kernel_code(made, wanted.symbol_alone)
    if code is None:
        return Unedited(same_instructions=False, why=f"{command.file} does not make this kernel")
    if code == captured:
        return Unedited(same_instructions=True, whole_unit_because=why_whole)
    reasons = list(_list_reasons(captured, code, made, wanted))
    level = _find_level(command, wanted, captured) if took_s < _MAX_TRIAL_S else None
    if level is not None:
        reasons.insert(0, level)
    elif newer:
        reasons.insert(0, f"{min(newer)} was changed after the program was built")
    return Unedited(same_instructions=False, why="; ".join(reasons))


def _find_level(command: CompileCommand, wanted: Wanted, captured: bytes) -> str | None:
    """Say which other optimisation level gives the captured instructions, if one does."""
    flags = wanted.toolchain.choose_flags(command, wanted.defines)
    for level, changed in wanted.toolchain.list_other_levels(flags).items():
        try:
            made = compile_device_code(command, wanted, changed)
        except DeviceError:
            continue
        if made is not None and wanted.toolchain.read_kernel_code(made, wanted.symbol_alone) == captured:
            return f"the program was built with {level}, which gives the captured instructions"
    return None


def _list_reasons(captured: bytes, code: bytes, made: bytes, wanted: Wanted) -> Iterator[str]:
    """Yield the differences: compiler, resources, and always the number of differing instructions."""
    theirs, ours = (
        wanted.toolchain.read_compiler_name(wanted.code_object),
        wanted.toolchain.read_compiler_name(made),
    )
    if theirs is not None and ours is not None and theirs != ours:
        yield f"the program was built by {theirs}, not by {ours}"
    try:
        before = read_code_object(wanted.code_object).find_kernel(wanted.symbol)
        after = read_code_object(made).find_kernel(wanted.symbol_alone)
    except ArtifactError:
        before = after = None
    if before is not None and after is not None:
        yield from _compare_resources(before, after)
    if len(captured) == len(code):
        differing = sum(captured[at : at + 4] != code[at : at + 4] for at in range(0, len(code), 4))
        yield f"{differing:,} of {-(-len(code) // 4):,} words of instructions differ"
    else:
        yield f"{len(code):,} bytes of instructions instead of {len(captured):,}"


def _compare_resources(before: KernelFacts, after: KernelFacts) -> Iterator[str]:
    """Yield the registers, LDS and scratch that differ from the captured kernel's."""
    pairs = {
        "VGPRs": (before.registers.vgpr_count, after.registers.vgpr_count),
        "AGPRs": (before.registers.agpr_count, after.registers.agpr_count),
        "SGPRs": (before.registers.sgpr_count, after.registers.sgpr_count),
        "registers": (before.registers.per_thread_count, after.registers.per_thread_count),
        "bytes of LDS": (before.static_lds_bytes, after.static_lds_bytes),
        "bytes of scratch": (before.scratch_bytes_per_work_item, after.scratch_bytes_per_work_item),
    }
    for name, (old, new) in pairs.items():
        if old is not None and new is not None and old != new:
            yield f"{new} {name} instead of {old}"
