"""What kc-run says of a run: in how many dispatches the variant ran; if in none, why, and what to do."""

from __future__ import annotations

import shlex
import signal
from typing import TYPE_CHECKING

from kerncap_stages.code.kernel_facts import find_symbol
from kerncap_stages.collect.no_capture import explain_no_gpu
from kerncap_stages.collect.selection import find_close_names, strip_parameters
from kerncap_stages.manifests.os_strings import to_os_string
from kerncap_stages.text.formats import count, format_shape
from kerncap_stages.text.kernel_names import shorten

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kerncap_stages.cli.flows.run_variants import ChosenVariant
    from kerncap_stages.collect.replacing import Replaced, ReplacedRun
    from kerncap_stages.manifests.base import Dim3

_NAME_WIDTH = 80
_OTHER_CODE = "a kernel of this name is there, in another code object than the captured one"
_ANY_CODE = "`--any-code` replaces it there, too; or capture the kernel again, in this program"

_USERS_SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGKILL)

Line = tuple[str, str | None]  # a message, and the next step for the user


def describe_run(variants: Sequence[ChosenVariant], run: ReplacedRun, *, any_code: bool) -> Iterator[Line]:
    """Say what became of each variant. any_code: kernels in other code objects were replaced, too."""
    for each in variants:
        yield from _describe(each, run, run.add_up(each.number), any_code=any_code)
    for process in run.processes:
        if process.lost:
            yield f"process {process.process_id}: it closed the connection; what it ran is not known", None
        for text in dict.fromkeys(process.notes):
            yield f"process {process.process_id}: {text}", None


def _describe(variant: ChosenVariant, run: ReplacedRun, found: Replaced, *, any_code: bool) -> Iterator[Line]:
    name = variant.title
    used = sum(process.kernels[variant.number].dispatches > 0 for process in run.processes)
    if found.dispatches:
        ran = f"{_count(found.dispatches, 'dispatch')} of {_count(used, 'process')}"
        yield f"{name}: the variant ran in {ran}", None
    else:
        why, next_step = _explain_nothing(variant, run, found, any_code=any_code)
        yield f"{name}: nothing was replaced: {why}", next_step
    if found.kept:
        why = (
            "where the variant could not run"
            if found.failures
            else "whose launch the variant does not support"
        )
        kept = f"the captured kernel ran in {_count(found.kept, 'dispatch')} {why}"
        yield f"{name}: {kept}; the latest had {_format_launch(found.other_shape)}", None
    if found.other_code and found.dispatches:
        yield f"{name}: left alone in {count(found.other_code, 'code object')}: {_OTHER_CODE}", _ANY_CODE
    for reason in dict.fromkeys(found.failures):
        yield f"{name}: the variant could not run, and the captured kernel did: {reason}", None


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}es"


def _format_launch(shape: tuple[Dim3, Dim3] | None) -> str:
    grid, block = shape or ((0, 0, 0), (0, 0, 0))
    return f"{format_shape(grid)} blocks of {format_shape(block)} work-items"


def _explain_nothing(
    variant: ChosenVariant, run: ReplacedRun, found: Replaced, *, any_code: bool
) -> tuple[str, str | None]:
    """Explain why a variant ran in no dispatch, and what to do."""
    if failure := next((process.failure for process in run.processes if process.failure), None):
        return failure, None
    if (ended := _explain_signal(run, found)) is not None:
        return ended
    if not run.processes:
        return "the program used no GPU", explain_no_gpu(run.program, run.left_behind).hint
    if found.loaded and found.kept:
        grid, block = (",".join(map(str, size)) for size in found.other_shape or ((), ()))
        words = ["--kernel", variant.symbol, "--grid-blocks", grid, "--block", block]
        return (
            "the variant supports none of the launches",
            "let the variant support such blocks, or capture such a dispatch: "
            f"{_write('kc-capture', words, run)}",
        )
    if found.loaded:
        return (
            f"the program loaded the kernel, and never launched it ({variant.symbol})",
            f"{_write('kc-profile', (), run)} lists the kernels that run; {_tell_captured(variant)}",
        )
    if found.other_code:
        return _OTHER_CODE, _ANY_CODE
    if found.failures:
        return "the variant could not run", None
    return _explain_unknown(variant, run, any_code=any_code)


def _explain_signal(run: ReplacedRun, found: Replaced) -> tuple[str, str | None] | None:
    """Explain that a signal ended the program before it came to the kernel; None if no signal did."""
    number = run.program.exit_signal
    if number is None or found.kept or found.other_code or found.failures:
        return None
    done = "launched" if found.loaded else "loaded"
    hint = None if number in _USERS_SIGNALS else "run the program alone first"
    return f"the program {run.program.describe_end()} before it {done} the kernel", hint


def _explain_unknown(variant: ChosenVariant, run: ReplacedRun, *, any_code: bool) -> tuple[str, str]:
    """Explain that the program loaded no such kernel: name those that it loaded."""
    names: dict[str, str] = {}
    for process in run.processes:
        names |= process.loaded_names
    why = f"no code object that the program loaded has this kernel ({variant.symbol})"
    if not any_code and find_symbol(variant.symbol, names) is not None:
        return f"{why}; one has it under another symbol, as after a build in another folder", _ANY_CODE
    close = find_close_names(strip_parameters(variant.name), names.values())
    if close:
        listed = ", ".join(shorten(each, _NAME_WIDTH) for each in close)
        why += f"; it loaded kernels with similar names: {listed}"
    elif names:
        why += f"; none of the {count(len(names), 'kernel')} that it loaded has a similar name"
    else:
        why += "; it loaded no kernel"
    return (
        why,
        f"{_write('kc-profile', (), run)} lists the kernels that run; capture the one that you mean, and "
        f"edit that; {_tell_captured(variant)}",
    )


def _write(stage: str, words: Sequence[str], run: ReplacedRun) -> str:
    return f"`{shlex.join([stage, *words, '--', *run.program.spec.command])}`"


def _tell_captured(variant: ChosenVariant) -> str:
    command = shlex.join(to_os_string(word) for word in variant.capture.program.command)
    return f"the kernel was captured in `{command}`"
