"""Reads PTX: its target, and its kernels with their parameters. The driver compiles PTX when it loads it.

    entry     = ".entry" name ["(" parameter ("," parameter)* ")"]
    parameter = ".param" [".align" bytes] type [".ptr" ...] name ["[" elements "]"]

A parameter lies at the next multiple of its alignment, which is the size of its type unless `.align` gives
another (PTX ISA, "Kernel Function Parameters").
"""

from __future__ import annotations

import re

from kerncap_stages.code.file_format import strip_comments
from kerncap_stages.code.kernel_facts import CodeObjectFacts, KernelFacts
from kerncap_stages.errors import ArtifactError
from kerncap_stages.manifests.kernel import CodeObjectFormat, KernargSlot, Registers

_TARGET = re.compile(r"^[ \t]*\.target[ \t]+(\w+)", re.MULTILINE)
_ENTRY_LINE = re.compile(rb"^[ \t]*(?:\.visible[ \t]+|\.weak[ \t]+)*\.entry[ \t]+([\w$]+)", re.MULTILINE)
_ENTRY = re.compile(r"\.entry\s+([\w$%]+)\s*(?:\(([^()]*)\))?")
_PARAMETER = re.compile(r"\.param\b(.*?)([\w$%]+)\s*(?:\[\s*(\d{1,9})\s*\])?\s*$", re.DOTALL)
_TYPE = re.compile(r"\.(?:[usbf](8|16|32|64|128)|(texref|samplerref|surfref))(?![\w.])")
_ALIGN = re.compile(r"^\s*\.align\s+(\d{1,9})\b")
_MAX_LETTERS = 4096  # of a parameter: parsing it takes time in the square of its length
_OPAQUE_BITS = 64


def find_entry_lines(text: bytes) -> dict[str, int]:
    """Return the line, counted from 1, on which each kernel of PTX begins, by symbol."""
    return {
        entry[1].decode(): text.count(b"\n", 0, entry.start()) + 1 for entry in _ENTRY_LINE.finditer(text)
    }


def read_ptx(data: bytes) -> CodeObjectFacts:
    """Read the target of PTX, and its kernels with their parameters.

    Raises ArtifactError for a parameter of an unknown type.
    """
    text = strip_comments(data)
    target = _TARGET.search(text)
    kernels = {entry[1]: _read_kernel(entry[1], entry[2] or "") for entry in _ENTRY.finditer(text)}
    return CodeObjectFacts(target[1] if target else "unknown", None, kernels, CodeObjectFormat.PTX)


def _read_kernel(name: str, parameters: str) -> KernelFacts:
    slots = []
    end = 0
    for text in parameters.split(","):
        if not text.strip():
            continue
        size, align = _read_size_and_alignment(name, text)
        begin = -(-end // align) * align
        slots.append(KernargSlot(offset_bytes=begin, size_bytes=size, value_kind="by_value"))
        end = begin + size
    return KernelFacts(name, tuple(slots), end, None, 0, 0, False, 32, Registers(), None, None, 0, 0, None)


def _read_size_and_alignment(kernel: str, text: str) -> tuple[int, int]:
    parameter = _PARAMETER.search(text) if len(text) <= _MAX_LETTERS else None
    kind = _TYPE.search(parameter[1]) if parameter else None
    if parameter is None or kind is None:
        raise ArtifactError(
            f"a parameter of {kernel} has an unknown type: {text.strip()[:200]!r}",
            hint="give a cubin instead",
        )
    each = (int(kind[1]) if kind[1] else _OPAQUE_BITS) // 8
    align = _ALIGN.search(parameter[1])
    return each * int(parameter[3] or 1), max(1, int(align[1])) if align else each
