"""GPU targets: one parser for every spelling, and what a code object's ELF header says.

The same GPU has many names: ``gfx90a:xnack-`` for a compiler, ``amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-``
for ROCr, ``amdgcn-amd-amdhsa-unknown-gfx90a`` or ``amdgpu9.0a-amd-amdhsa-unknown-gfx90a`` in the metadata
that newer LLVMs write, ``hipv4-amdgcn-amd-amdhsa--gfx90a`` for an entry of an offload bundle. ROCr's loader
goes by e_flags of the ELF header alone, so that is what counts for a code object. LLVM's AMDGPU usage guide
has its layout.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# A processor is the last part of a name, with its features; of a generic one the name has dashes of its own.
_GENERIC = r"gfx\d+(?:-\d+)*-generic"
_NAMED = re.compile(rf"(?:(.*)-)?({_GENERIC}|gfx[0-9a-f]+|sm_\d+[a-z]?)((?::[a-z]+[+-])*)", re.ASCII)
_ROCR_TRIPLE = "amdgcn-amd-amdhsa"
_MACH_MASK = 0xFF
# Code object version 3 (ABI version 1) has one bit a feature, later ones two: unsupported, any, off, on.
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
    """A GPU that code is for. ``triple``: what stood before it, if anything; ``features``: ``xnack-``."""

    triple: str
    processor: str
    features: tuple[str, ...] = ()

    def __str__(self) -> str:
        """What compilers call it: ``gfx90a:sramecc+:xnack-``, ``sm_90a``."""
        return ":".join((self.processor, *self.features))

    @property
    def isa(self) -> str:
        """What ROCr calls it: ``amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-``."""
        return f"{_ROCR_TRIPLE}--{self}"

    def feature(self, name: str) -> bool | None:
        """Whether a feature is on; None where the target does not say."""
        signs = [each[-1] for each in self.features if each[:-1] == name]
        return signs[0] == "+" if signs else None

    def runs_on(self, device: Target) -> bool:
        """Whether code for this target runs on a device; a feature that is not named may be on or off."""
        return self.processor == device.processor and set(self.features) <= set(device.features)


def parse_target(name: str) -> Target | None:
    """Take a target's name apart, however it is spelled; None where it names no GPU."""
    match = _NAMED.fullmatch(name)
    if match is None:
        return None
    triple = (match[1] or "").rstrip("-").removesuffix("-unknown")
    return Target(triple, match[2], tuple(match[3].split(":")[1:]))


def processor_of(name: str) -> str:
    """``gfx90a`` of any of its names; what names no GPU, as it is."""
    target = parse_target(name)
    return name if target is None else target.processor


def target_of_elf(e_flags: int, abi_version: int) -> Target | None:
    """What the ELF header of an AMD code object says; None for a processor that came after this table.

    abi_version: EI_ABIVERSION, 1 for code object version 3.
    """
    processor = PROCESSORS.get(e_flags & _MACH_MASK)
    if processor is None:
        return None
    features = []
    for name, bit in _FIELDS.items():
        if abi_version <= _ABI_VERSION_3:
            # The bit is also clear where the GPU has no such feature.
            features += [f"{name}+"] if e_flags & _SINGLE_BITS[name] else []
        else:
            features += {_OFF: [f"{name}-"], _ON: [f"{name}+"]}.get(e_flags >> bit & 3, [])
    return Target(_ROCR_TRIPLE, processor, tuple(features))
