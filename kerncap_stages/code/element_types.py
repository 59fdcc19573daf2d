"""Finds the type of the numbers that a C++ type holds, as a demangler or a source file spells it.

A type that is not known stays unknown: after a wrong guess, validation would compare the wrong numbers.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_SCALARS = {
    "double": "fp64",
    "float": "fp32",
    "_Float16": "fp16",
    "__half": "fp16",
    "__fp16": "fp16",
    "half": "fp16",
    "__half_raw": "fp16",
    "__bf16": "bf16",
    "__hip_bfloat16": "bf16",
    "hip_bfloat16": "bf16",
    "__nv_bfloat16": "bf16",
    "nv_bfloat16": "bf16",
    "__hip_fp8_e4m3": "fp8_e4m3",
    "__hip_fp8_e5m2": "fp8_e5m2",
    "__hip_fp8_e4m3_fnuz": "fp8_e4m3_fnuz",
    "__hip_fp8_e5m2_fnuz": "fp8_e5m2_fnuz",
    "__nv_fp8_e4m3": "fp8_e4m3",
    "__nv_fp8_e5m2": "fp8_e5m2",
    "char": "int8",
    "signed char": "int8",
    "unsigned char": "uint8",
    "bool": "uint8",
    "short": "int16",
    "unsigned short": "uint16",
    "int": "int32",
    "unsigned int": "uint32",
    "long": "int64",
    "unsigned long": "uint64",
    "size_t": "uint64",
    "ssize_t": "int64",
    "ptrdiff_t": "int64",
    "char8_t": "uint8",
    "char16_t": "uint16",
    "char32_t": "uint32",
}
_FIXED = re.compile(r"(?:std::)?(u?)int(8|16|32|64)_t")
# HIP's short vectors: their names, and below the template that ROCm's headers define them with.
_SHORT_VECTOR = re.compile(r"(u?(?:char|short|int|long|longlong)|float|double)([1-4])")
_VECTOR_NAMES = {
    "uchar": "unsigned char",
    "ushort": "unsigned short",
    "uint": "unsigned int",
    "ulong": "unsigned long",
    "longlong": "long",
    "ulonglong": "unsigned long",
}
_WRAPPED = re.compile(
    r"(?:HIP_vector_type|(?:\w+::)*complex|rocblas_complex_num|thrust::complex)<(.+?)(?:,[^<>]*)?>", re.DOTALL
)
_COMPLEX = {"hipFloatComplex": "fp32", "hipComplex": "fp32", "hipDoubleComplex": "fp64"}
_PAIRS = {"__half2": "fp16", "half2": "fp16", "__hip_bfloat162": "bf16", "__nv_bfloat162": "bf16"}
_EXTENDED_VECTOR = re.compile(r"(.+?) (?:__vector\(\d+\)|vector\[\d+\])")
_QUALIFIER = re.compile(
    r"\b(?:const|volatile|__restrict__|__restrict|restrict|struct|class|enum|typename|__shared__|__global)\b"
)
# Words of an integer type, which may come in any order: `unsigned long long int` is `unsigned long`.
_INTEGER_WORDS = frozenset({"unsigned", "signed", "long", "short", "int", "char"})


def find_pointee(type_text: str) -> str | None:
    """Return the type that a pointer, reference or array points to, without qualifiers; else None."""
    text = type_text.strip()
    text = re.sub(r"\[[^\]]*\]\s*$", "*", text)
    text = _QUALIFIER.sub(" ", text).strip()
    if not text.endswith(("*", "&")):
        return None
    return " ".join(text[:-1].split())


def is_pointer_to_const(type_text: str) -> bool:
    """Whether a parameter of this type points to constant elements, which the kernel does not write."""
    text = re.sub(r"\[[^\]]*\]\s*$", "*", type_text.strip()).rstrip()
    text = re.sub(r"(?:\s|\bconst\b|\bvolatile\b|\b__restrict__|\b__restrict\b)+$", "", text)
    if not text.endswith(("*", "&")):
        return False
    target = text[:-1].rstrip()
    if target.endswith(("const", "const volatile")):
        return True
    return "*" not in target and bool(re.match(r"(?:volatile\s+)?const\b", target))


def find_element_type(type_text: str, resolve: Callable[[str], str | None] | None = None) -> str | None:
    """Return the type of the numbers in a value of a C++ type, as ``ElementType`` names it; None if unknown.

    ``resolve`` gets the name of a type that is neither C++'s nor HIP's own, and returns the same or None.
    """
    text = " ".join(_QUALIFIER.sub(" ", type_text).split())
    if not text or "*" in text or "&" in text:
        return None
    known = _SCALARS.get(text) or _COMPLEX.get(text) or _PAIRS.get(text) or _parse_integer(text)
    if known:
        return known
    if match := _FIXED.fullmatch(text):
        return f"{match[1]}int{match[2]}"
    if match := _SHORT_VECTOR.fullmatch(text):
        name = _VECTOR_NAMES.get(match[1], match[1])
        return _SCALARS.get(name)
    for pattern in (_WRAPPED, _EXTENDED_VECTOR):
        if match := pattern.fullmatch(text):
            return find_element_type(match[1], resolve)
    return resolve(text) if resolve is not None else None


def count_lanes(type_text: str) -> int | None:
    """Return how many numbers a value holds if the type is C++'s or HIP's own; None for any other type."""
    text = " ".join(_QUALIFIER.sub(" ", type_text).split())
    if text in _SCALARS or _parse_integer(text) or _FIXED.fullmatch(text):
        return 1
    if match := _SHORT_VECTOR.fullmatch(text):
        return int(match[2])
    return 2 if text in _COMPLEX or text in _PAIRS else None


def _parse_integer(text: str) -> str | None:
    words = text.split()
    if not words or not _INTEGER_WORDS.issuperset(words):
        return None
    if "char" in words:
        bits = 8
    elif "short" in words:
        bits = 16
    else:
        bits = 64 if "long" in words else 32
    return f"{'u' if 'unsigned' in words else ''}int{bits}"
