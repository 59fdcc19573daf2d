"""What a code object says about its kernels, whatever its format."""

from __future__ import annotations

from dataclasses import dataclass

from kerncap_stages.manifests.kernel import CodeObjectFormat, KernargSlot, Registers


@dataclass(frozen=True)
class KernelFacts:
    """One kernel as its code object describes it."""

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
    unsupported: tuple[str, ...] = ()  # what it does that a replay cannot


@dataclass(frozen=True)
class CodeObjectFacts:
    """A code object: its target, the version of its ABI, and its kernels by mangled name."""

    isa: str
    abi_version: int | None
    kernels: dict[str, KernelFacts]
    format: CodeObjectFormat = CodeObjectFormat.ELF_AMDGPU
