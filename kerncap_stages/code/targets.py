"""Parses the names of GPU targets in all spellings, and the target in a code object's ELF header.

The same GPU has many names: ``gfx90a:xnack-`` for a compiler, ``amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-``
for ROCr, ``amdgcn-amd-amdhsa-unknown-gfx90a`` or ``amdgpu9.0a-amd-amdhsa-unknown-gfx90a`` in the metadata
that newer LLVMs write, ``hipv4-amdgcn-amd-amdhsa--gfx90a`` for an entry of an offload bundle. For a code
object the ELF header decides, because ROCr's loader only reads e_flags. LLVM's AMDGPU usage guide describes
them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# The processor is the last part of a name, before its features; names of generic processors contain dashes.
_GENERIC = r"gfx\d+(?:-\d+)*-generic"
_NAMED = re.compile(rf"(?:(.*)-)?({_GENERIC}|gfx[0-9a-f]+|sm_\d+[a-z]?)((?::[a-z]+[+-])*)", re.ASCII)
_ROCR_TRIPLE = "amdgcn-amd-amdhsa"
_MACH_MASK = 0xFF
# Code object version 3 (ABI version 1) has one bit for each feature, later versions have two, with the values
# unsupported, any, off and on.
_ABI_VERSION_3 = 1
_SINGLE_BITS = {"sramecc": 0x200, "xnack": 0x100}
_FIELDS = {"sramecc": 10, "xnack": 8}
_OFF, _ON = 2, 3
PROCESSORS = {  # EF_AMDGPU_MACH
    0x20: "gfx600",
    0x21: "gfx601",
    0x3A: "gfx602",
    0x22: "gfx700",
    0x23: "gfx701",
    0x24: "gfx702",
    0x25: "gfx703",
    0x26: "gfx704",
    0x3B: "gfx705",
    0x28: "gfx801",
    0x29: "gfx802",
    0x2A: "gfx803",
    0x3C: "gfx805",
    0x2B: "gfx810",
    0x2C: "gfx900",
    0x2D: "gfx902",
    0x2E: "gfx904",
    0x2F: "gfx906",
    0x30: "gfx908",
    0x31: "gfx909",
    0x32: "gfx90c",
    0x3F: "gfx90a",
    0x4C: "gfx942",
    0x4F: "gfx950",
    0x33: "gfx1010",
    0x34: "gfx1011",
    0x35: "gfx1012",
    0x42: "gfx1013",
    0x36: "gfx1030",
    0x37: "gfx1031",
    0x38: "gfx1032",
    0x39: "gfx1033",
    0x3E: "gfx1034",
    0x3D: "gfx1035",
    0x45: "gfx1036",
    0x41: "gfx1100",
    0x46: "gfx1101",
    0x47: "gfx1102",
    0x44: "gfx1103",
    0x43: "gfx1150",
    0x4A: "gfx1151",
    0x55: "gfx1152",
    0x58: "gfx1153",
    0x48: "gfx1200",
    0x4E: "gfx1201",
    0x49: "gfx1250",
    0x51: "gfx9-generic",
    0x5F: "gfx9-4-generic",
    0x52: "gfx10-1-generic",
    0x53: "gfx10-3-generic",
    0x54: "gfx11-generic",
    0x59: "gfx12-generic",
}


@dataclass(frozen=True)
class Target:
    """A GPU that code is for. ``triple``: the name before the processor; ``features``: such as ``xnack-``."""

    triple: str
    processor: str
    features: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the compilers' name: ``gfx90a:sramecc+:xnack-``, ``sm_90a``."""
        return ":".join((self.processor, *self.features))

    @property
    def isa(self) -> str:
        """ROCr's name: ``amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-``."""
        return f"{_ROCR_TRIPLE}--{self}"

    def has_feature(self, name: str) -> bool | None:
        """Whether a feature is on; None if the target does not name it."""
        signs = [each[-1] for each in self.features if each[:-1] == name]
        return signs[0] == "+" if signs else None

    def runs_on(self, device: Target) -> bool:
        """Whether code for this target runs on a device; a feature that it does not name may be on or off."""
        return self.processor == device.processor and set(self.features) <= set(device.features)


def parse_target(name: str) -> Target | None:
    """Parse a target's name in any spelling; None if it names no GPU."""
    match = _NAMED.fullmatch(name)
    if match is None:
        return None
    triple = (match[1] or "").rstrip("-").removesuffix("-unknown")
    return Target(triple, match[2], tuple(match[3].split(":")[1:]))


def find_processor(name: str) -> str:
    """Return the processor, such as ``gfx90a``, of a target's name; a name of no GPU is returned as it is."""
    target = parse_target(name)
    return name if target is None else target.processor


def parse_elf_target(e_flags: int, abi_version: int) -> Target | None:
    """Return the target in the ELF header of an AMD code object; None if this table lacks the processor.

    abi_version: EI_ABIVERSION, 1 for code object version 3.
    """
    processor = PROCESSORS.get(e_flags & _MACH_MASK)
    if processor is None:
        return None
    features = []
    for name, bit in _FIELDS.items():
        if abi_version <= _ABI_VERSION_3:
            # The bit is also clear if the GPU does not have the feature.
            features += [f"{name}+"] if e_flags & _SINGLE_BITS[name] else []
        else:
            features += {_OFF: [f"{name}-"], _ON: [f"{name}+"]}.get(e_flags >> bit & 3, [])
    return Target(_ROCR_TRIPLE, processor, tuple(features))
