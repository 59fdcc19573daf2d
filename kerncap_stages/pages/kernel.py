"""Sections of a capture's page: the kernel, its launch, and its arguments with their values."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kerncap_stages.manifests.os_strings import to_os_string
from kerncap_stages.pages.parts import list_facts, make_heading, make_table, note
from kerncap_stages.pages.shared import describe_code_object
from kerncap_stages.text import formats

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.kernel import KernargSlot, Kernel, Launch
    from kerncap_stages.manifests.memory import Region
    from kerncap_stages.manifests.rtc import RtcProgram
    from kerncap_stages.manifests.triton import TritonArgument, TritonFunction

_UNSIGNED = {1: "B", 2: "H", 4: "I", 8: "Q"}
_FLOATS = {"float": "f", "double": "d"}
_SHOWN_ABOVE = frozenset({"local", "registers", "static_shared"})  # of CUDA's function attributes


@dataclass(frozen=True)
class _Words:
    """What each vendor calls the parts of a launch."""

    wavefront: str = "wavefront"
    lanes: str = "lanes"
    kernarg: str = "kernarg"
    items: str = "work-items"
    lds: str = "LDS"
    scratch: str = "scratch"


_CUDA_WORDS = _Words("warp", "threads", "parameters", "threads", "shared memory", "local memory")


def _choose_words(kernel: Kernel) -> _Words:
    # A view holds the format as text, so compare with text.
    return _Words() if kernel.code_object.format == "elf_amdgpu" else _CUDA_WORDS


def make_kernel_section(kernel: Kernel) -> Iterator[RenderableType]:
    """Show what the code object records about the kernel."""
    registers = ", ".join(
        f"{number} {name}"
        for name, number in (
            ("SGPRs", kernel.registers.sgpr_count),
            ("VGPRs", kernel.registers.vgpr_count),
            ("AGPRs", kernel.registers.agpr_count),
            ("SGPR spills", kernel.registers.sgpr_spill_count),
            ("VGPR spills", kernel.registers.vgpr_spill_count),
            ("a thread", kernel.registers.per_thread_count),
        )
        if number
    )
    preload = kernel.kernarg_preload_length_dwords
    ptx = kernel.code_object.ptx
    words = _choose_words(kernel)
    yield make_heading("Kernel")
    yield list_facts(
        [
            ("name", kernel.demangled_name),
            ("symbol", kernel.mangled_name),
            ("language", kernel.language.value),
            ("code object", describe_code_object(kernel.code_object)),
            ("compiled by the driver from", ", ".join(f"PTX {text.digest.short}" for text in ptx) or None),
            ("registers", registers or None),
            (words.wavefront, f"{kernel.wavefront_size} {words.lanes}"),
            (words.kernarg, formats.format_size(kernel.kernarg_size_bytes)),
            ("preloaded", f"{preload} dwords of kernarg" if preload else None),
        ]
    )
    if kernel.rtc is not None:
        yield list_facts(_describe_rtc(kernel.rtc))
    if kernel.triton is not None:
        constants = ", ".join(f"{value.name}={value.text}" for value in kernel.triton.constexprs)
        options = ", ".join(f"{value.name}={value.text}" for value in kernel.triton.options)
        yield list_facts(
            [
                ("function", _tell_place(kernel.triton.functions[0])),
                ("calls", ", ".join(map(_tell_place, kernel.triton.functions[1:])) or None),
                ("constants", constants or None),
                ("options", options + (" (chosen by an autotuner)" if kernel.triton.autotuned else "")),
            ]
        )


def _describe_rtc(rtc: RtcProgram) -> list[tuple[str, str | None]]:
    return [
        ("compiled at run time by", rtc.compiler),
        ("from", f"{to_os_string(rtc.source.name)}, {formats.format_size(rtc.source.size_bytes)}"),
        ("headers", ", ".join(to_os_string(header.name) for header in rtc.headers) or None),
        ("name expressions", ", ".join(rtc.name_expressions) or None),
        ("options", " ".join(map(to_os_string, rtc.options)) or None),
    ]


def make_launch_section(launch: Launch, kernel: Kernel) -> Iterator[RenderableType]:
    """Show the shape of the launch, in work-items and in blocks."""
    words = _choose_words(kernel)
    yield make_heading("Launch")
    yield make_table(
        ["", ">x", ">y", ">z"],
        [
            (f"grid, {words.items}", *map(str, launch.grid_work_items)),
            ("grid, blocks", *map(str, launch.grid_blocks)),
            (f"block, {words.items}", *map(str, launch.block_work_items)),
        ],
    )
    static, dynamic = map(formats.format_size, (launch.static_lds_bytes, launch.dynamic_lds_bytes))
    lds = f"{static} static + {dynamic} dynamic"
    yield list_facts(
        [
            (words.lds, lds),
            (words.scratch, f"{formats.format_size(launch.private_segment_bytes)} a {words.items[:-1]}"),
            ("cluster", formats.format_shape(launch.cluster_blocks) if launch.cluster_blocks else None),
            ("cooperative", "yes" if launch.is_cooperative else None),
            *sorted(item for item in launch.attributes.items() if item[0] not in _SHOWN_ABOVE),
        ]
    )


def make_arguments_section(capture: Capture) -> Iterator[RenderableType]:
    """Show each argument with its value; for a pointer also the region that it points to."""
    kernarg = bytes.fromhex(capture.kernarg)
    explicit = [slot for slot in capture.kernel.slots if not slot.is_hidden]
    hidden = len(capture.kernel.slots) - len(explicit)
    if not capture.kernel.slots:
        return
    yield make_heading("Arguments")
    yield make_table(
        [">offset", ">size", "name", "type", "kind", "value"],
        (
            (
                str(slot.offset_bytes),
                str(slot.size_bytes),
                slot.name or "-",
                slot.type_name or "-",
                slot.value_kind,
                format_slot_value(slot, kernarg, capture.regions),
            )
            for slot in explicit
        ),
    )
    if hidden:
        yield note(f"and {formats.count(hidden, 'hidden argument')}, filled by the runtime")


def make_call_section(launch: Launch) -> Iterator[RenderableType]:
    """Show the call in Python that launched a Triton kernel."""
    call = launch.triton
    if call is None:
        return
    yield make_heading("Call in Python", f"{formats.format_shape(call.grid_programs)} programs")
    yield make_table(
        ["name", "type", "shape", "strides", ">offset", "=address or value"],
        (_describe_call_argument(argument) for argument in call.arguments),
    )


def _describe_call_argument(argument: TritonArgument) -> tuple[str, ...]:
    tensor = argument.tensor
    if argument.unknown is not None or tensor is None:
        value = f"not recorded: {argument.unknown}" if argument.unknown is not None else argument.text
        return argument.name, argument.type_name, "", "", "", value
    shape, strides = (
        "-" if sizes is None else ", ".join(map(str, sizes)) for sizes in (tensor.shape, tensor.strides)
    )
    offset = "-" if tensor.storage_offset_elements is None else f"{tensor.storage_offset_elements:,}"
    block = (
        "" if argument.block_shape is None else f", blocks of {formats.format_shape(argument.block_shape)}"
    )
    kind = tensor.dtype + block
    return argument.name, kind, shape, strides, offset, formats.format_address(tensor.address)


def format_slot_value(slot: KernargSlot, kernarg: bytes, regions: tuple[Region, ...]) -> str:
    """Read a slot's value out of the kernarg segment."""
    raw = kernarg[slot.offset_bytes : slot.offset_bytes + slot.size_bytes]
    if len(raw) < slot.size_bytes:
        return "not in the segment"
    letter = _UNSIGNED.get(len(raw))
    if letter is None:
        return raw[:16].hex(" ", 4) + (" ..." if len(raw) > 16 else "")
    (number,) = struct.unpack("<" + letter, raw)
    if slot.value_kind != "by_value" or (len(raw) == 8 and _is_address(number, regions)):
        return _describe_pointer(number, regions)
    real = _FLOATS.get(slot.type_name or "")
    if real is not None and struct.calcsize(real) == len(raw):
        return repr(struct.unpack("<" + real, raw)[0])
    if slot.type_name is not None and "unsigned" not in slot.type_name and "*" not in slot.type_name:
        (number,) = struct.unpack("<" + letter.lower(), raw)
        return str(number)
    return f"{number} (0x{number:x})" if number > 9 else str(number)


def _tell_place(function: TritonFunction) -> str:
    return f"{function.qualified_name} ({to_os_string(function.path)}:{function.line})"


def _is_address(value: int, regions: tuple[Region, ...]) -> bool:
    """Whether a number is an address of the capture: a cubin does not say which parameters are pointers."""
    return any(region.contains(value) for region in regions)


def _describe_pointer(value: int, regions: tuple[Region, ...]) -> str:
    for index, region in enumerate(regions):
        offset = value - region.base_address
        if 0 <= offset < region.size_bytes:
            return f"{formats.format_address(value)}  region {index}" + (f" + {offset:,}" if offset else "")
    return "null" if value == 0 else f"{formats.format_address(value)}  in no region"
