"""A kernel, its code object and its launch."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Self

from pydantic import Field, StringConstraints, model_validator

from kerncap_stages.digest import Digest, FileRef
from kerncap_stages.manifests.base import Bits32, Count, Dim3, Frozen, HexBytes, SizeBytes, refuse
from kerncap_stages.manifests.rtc import RtcProgram
from kerncap_stages.manifests.triton import TritonKernel, TritonLaunch

if TYPE_CHECKING:
    from collections.abc import Mapping

# Keys in the attributes of a CUDA launch. The limits are those of the context, in bytes. The carve-out is the
# percentage of the first-level cache to use as shared memory; -1 leaves it to the driver.
CONTEXT_LIMITS = ("stack_limit", "printf_limit", "persisting_l2_limit")
CARVEOUT = "carveout"
# Names of CUlaunchAttributeID by their numbers in cuda.h.
LAUNCH_ATTRIBUTES = {
    1: "access_policy_window",
    2: "cooperative",
    3: "synchronization_policy",
    4: "cluster_dimension",
    5: "cluster_scheduling_policy_preference",
    6: "programmatic_stream_serialization",
    7: "programmatic_event",
    8: "priority",
    9: "mem_sync_domain_map",
    10: "mem_sync_domain",
    11: "preferred_cluster_dimension",
    12: "launch_completion_event",
    13: "device_updatable_kernel_node",
    14: "preferred_shared_memory_carveout",
    16: "nvlink_util_centric_scheduling",
}
_NUMBER = re.compile(r"-?[0-9]{1,18}")
_LAUNCHED_BLOCK = Annotated[int, Field(gt=0, lt=2**16)]


class Language(StrEnum):
    """The language that the kernel was written in, as far as the code object tells."""

    HIP = "hip"
    CUDA_CPP = "cuda_cpp"
    TRITON = "triton"
    ASSEMBLY = "assembly"
    UNKNOWN = "unknown"


class CodeObjectFormat(StrEnum):
    """The format of a code object's bytes."""

    ELF_AMDGPU = "elf_amdgpu"
    CUBIN = "cubin"
    PTX = "ptx"


class CodeObject(Frozen):
    """The binary that holds a kernel, as the runtime loaded it."""

    payload: FileRef
    size_bytes: SizeBytes
    format: CodeObjectFormat
    isa: str
    abi_version: int | None = Field(
        default=None, ge=0, description="version of the code object, or of the cubin"
    )
    uri: str | None = Field(default=None, description="where the loader says it came from; only a hint")
    ptx: tuple[FileRef, ...] = Field(
        default=(),
        description="PTX with the kernel that the program passed to the driver, which compiled it (CUDA)",
    )


class KernargSlot(Frozen):
    """A kernel argument as the code object describes it; explicit arguments come before hidden ones."""

    offset_bytes: Count
    size_bytes: Count
    # Not an enumeration: any LLVM release may add kinds, and a capture must record them.
    value_kind: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$")] = Field(
        description="LLVM's name for it: `by_value`, `global_buffer`, `hidden_hostcall_buffer`, ..."
    )
    name: str | None = None
    type_name: str | None = None
    address_space: str | None = None
    access: str | None = Field(default=None, description="`read_only`, `write_only`, `read_write`")
    pointee_align_bytes: Count | None = None
    is_const: bool = False
    is_restrict: bool = False
    is_volatile: bool = False

    @property
    def is_hidden(self) -> bool:
        """Whether the runtime fills this argument; a replay fills it again."""
        return self.value_kind.startswith("hidden_")


class Registers(Frozen):
    """Register counts of a wavefront (AMD) or of a thread (NVIDIA); none for the other vendor's."""

    sgpr_count: Count | None = None
    vgpr_count: Count | None = None
    agpr_count: Count | None = None
    sgpr_spill_count: Count | None = None
    vgpr_spill_count: Count | None = None
    per_thread_count: Count | None = None


class Kernel(Frozen):
    """A kernel of a code object."""

    mangled_name: str = Field(min_length=1, description="the symbol, without the `.kd` of its descriptor")
    demangled_name: str = Field(min_length=1)
    language: Language
    code_object: CodeObject
    wavefront_size: int = Field(gt=0, le=128)
    registers: Registers
    static_lds_bytes: Count = Field(description="LDS (shared memory) of a work-group, fixed at compile time")
    scratch_bytes_per_work_item: Count
    uses_dynamic_stack: bool = False
    kernarg_size_bytes: Count = Field(description="size of the kernarg segment, or of all parameters")
    kernarg_align_bytes: Count | None = None
    kernarg_preload_offset_dwords: Count = 0
    kernarg_preload_length_dwords: Count = Field(
        default=0, description="loaded into SGPRs before the kernel starts"
    )
    slots: tuple[KernargSlot, ...]
    max_work_group_size: Count | None = None
    required_work_group_size: Dim3 | None = None
    triton: TritonKernel | None = None
    rtc: RtcProgram | None = Field(default=None, description="of a kernel that hipRTC or NVRTC compiled")

    @property
    def code_digest(self) -> Digest:
        """SHA-256 of the code object that holds the kernel."""
        return self.code_object.payload.digest

    @model_validator(mode="after")
    def _check_arguments(self) -> Self:
        for slot in self.slots:
            refuse(
                slot.offset_bytes + slot.size_bytes > self.kernarg_size_bytes,
                f"the argument of {slot.size_bytes} bytes at offset {slot.offset_bytes} ends outside the "
                f"{self.kernarg_size_bytes} bytes of arguments",
            )
        return self


class Launch(Frozen):
    """The shape of a dispatch. The grid is given in work-items and in blocks: they are easily confused."""

    grid_work_items: Dim3
    grid_blocks: tuple[Bits32, Bits32, Bits32]
    block_work_items: tuple[_LAUNCHED_BLOCK, _LAUNCHED_BLOCK, _LAUNCHED_BLOCK]
    static_lds_bytes: Bits32
    dynamic_lds_bytes: Bits32
    private_segment_bytes: Bits32 = Field(description="scratch of a work-item that the launch asked for")
    cluster_blocks: tuple[Bits32, Bits32, Bits32] | None = Field(
        default=None, description="thread-block cluster (CUDA)"
    )
    is_cooperative: bool = False
    aql_packet: HexBytes | None = Field(
        default=None, description="the 64 bytes that the program submitted (HSA)"
    )
    attributes: dict[str, str] = Field(
        default_factory=dict, description="further launch attributes, by the runtime's own names"
    )
    triton: TritonLaunch | None = Field(
        default=None, description="the call in Python; none if it was not recorded"
    )

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        for items, blocks, block in zip(
            self.grid_work_items, self.grid_blocks, self.block_work_items, strict=True
        ):
            # AQL allows the last work-group to be partial.
            refuse(blocks != -(-items // block), "grid_blocks is not grid_work_items / block_work_items")
        refuse(self.aql_packet is not None and len(self.aql_packet) != 128, "aql_packet must hold 64 bytes")
        cluster = self.cluster_blocks or ()
        refuse(any(cluster) and not all(cluster), "cluster_blocks is zero in some dimensions only")
        _check_numbers(self.attributes)
        return self


def _check_numbers(attributes: Mapping[str, str]) -> None:
    """Raise ValueError if an attribute that must be a number is none or is out of range."""
    bounds = dict.fromkeys(CONTEXT_LIMITS, (0, 10**18)) | {CARVEOUT: (-1, 100)}
    for name, (least, most) in bounds.items():
        text = attributes.get(name, str(least))
        is_number = _NUMBER.fullmatch(text) is not None and least <= int(text) <= most
        refuse(not is_number, f"the launch's {name} is not a number from {least} to {most}")


def count_blocks(grid_work_items: tuple[int, int, int], block: tuple[int, int, int]) -> tuple[int, int, int]:
    """Count the work-groups of a grid given in work-items. AQL allows the last one to be partial."""
    x, y, z = (-(-items // max(1, size)) for items, size in zip(grid_work_items, block, strict=True))
    return (x, y, z)
