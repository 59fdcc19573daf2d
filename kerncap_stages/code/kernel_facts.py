"""Facts about the kernels of a code object in any format, and their symbols without marks of units."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kerncap_stages.manifests.kernel import CodeObjectFormat, KernargSlot, Registers

if TYPE_CHECKING:
    from collections.abc import Collection

UNIT_MARK = r"(\.intern\.|\.static\.|__intern__|__static__)[0-9a-f]+"  # for grep -E, too
_UNIT = re.compile(f"{UNIT_MARK}$")
# nvcc's mark with separate compilation: __nv_static_28__5d2e0014_7_main_cu_4d11ce8d__ZN39_GLOBAL__N_..., or
# with a symbol that the unit exports, __nv_static_24__8f38712a_7_only_cu_main__Z6dampedPfi. The number is the
# length of the mark.
_NVCC_STATIC = re.compile(r"__nv_static_(\d{1,4})_")
# _ZN36_GLOBAL__N__ad82676b_4_a_cu_acc5a52f4anonEPf: a hash of the folder, the file's name, and a hash of the
# unit's definitions or, as in _GLOBAL__N__ad82676b_4_a_cu__Z1kPi, a symbol that the unit exports.
_NVCC_FOLDER = re.compile(r"(_GLOBAL__N__|_INTERNAL_)[0-9a-f]{8}(?=_\d+_)")
_NVCC_FILE = re.compile(r"(?:_GLOBAL__N__|_INTERNAL_)_(\d{1,4})_")  # after the folder's hash was removed
_HASH = re.compile(r"_[0-9a-f]{8}")


@dataclass(frozen=True)
class KernelFacts:
    """A kernel as its code object describes it."""

    symbol: str
    slots: tuple[KernargSlot, ...]
    kernarg_size_bytes: int
    kernarg_align_bytes: int | None
    static_lds_bytes: int
    scratch_bytes_per_work_item: int
    uses_dynamic_stack: bool
    wavefront_size: int
    registers: Registers
    max_work_group_size: int | None
    required_work_group_size: tuple[int, int, int] | None
    preload_offset_dwords: int
    preload_length_dwords: int
    language: str | None
    unsupported: tuple[str, ...] = ()  # what the kernel does that a replay does not support


@dataclass(frozen=True)
class CodeObjectFacts:
    """A code object: its target, the version of its ABI, and its kernels by mangled name."""

    isa: str
    abi_version: int | None
    kernels: dict[str, KernelFacts]
    format: CodeObjectFormat = CodeObjectFormat.ELF_AMDGPU

    def find_kernel(self, symbol: str) -> KernelFacts | None:
        """Return the kernel with this symbol, or the only one that differs just in the unit's mark."""
        name = find_symbol(symbol, self.kernels)
        return None if name is None else self.kernels[name]


def strip_unit(symbol: str) -> str:
    """Return ``_ZL5scalePf`` for ``_ZL5scalePf.intern.2dd6ad7a45459c37``.

    With relocatable device code (-fgpu-rdc) clang appends a hash of the unit's command to kernels of internal
    linkage; it differs when the unit is built alone. nvcc puts a mark before the name.
    """
    own = _NVCC_STATIC.match(symbol)
    name = symbol[own.end() + int(own[1]) :] if own else ""
    return _UNIT.sub("", name[1:] if name.startswith("_") else symbol)


def find_symbol(symbol: str, names: Collection[str]) -> str | None:
    """Return a symbol's name in a rebuilt code object: the same, or the only one that differs just in marks.

    nvcc's mark of the folder is ignored first: units with the same file name may both have the symbol.
    """
    if symbol in names:
        return symbol
    for plain in (_strip_folder, _strip_marks):
        wanted = plain(symbol)
        alike = [name for name in names if plain(name) == wanted]
        if alike:
            return alike[0] if len(alike) == 1 else None
    return None


def is_same_but_for_unit(name: str, other: str) -> bool:
    """Whether two symbols differ only in the compiler's marks of the translation unit.

    nvcc marks names in anonymous namespaces with a hash of the folder and a hash of the unit's definitions,
    which an edit changes.
    """
    return _strip_marks(name) == _strip_marks(other)


def find_unmarked_end(symbol: str) -> str:
    """Return the end of a symbol that is the same in every build: ``4anonEPf`` in an anonymous namespace."""
    rest = _strip_folder(symbol)
    while found := _NVCC_FILE.search(rest):
        end_of_file_name = found.end() + int(found[1])
        contents = _HASH.match(rest, end_of_file_name)
        rest = rest[contents.end() if contents else end_of_file_name :]
    return rest


def _strip_folder(symbol: str) -> str:
    return _NVCC_FOLDER.sub(r"\1", strip_unit(symbol))


def _strip_marks(symbol: str) -> str:
    kept, rest = "", _strip_folder(symbol)
    while found := _NVCC_FILE.search(rest):
        end_of_file_name = found.end() + int(found[1])
        contents = _HASH.match(rest, end_of_file_name)
        kept += rest[:end_of_file_name]
        rest = rest[contents.end() if contents else end_of_file_name :]
    return kept + rest
