"""Device and host memory that a kernel could reach, with its contents before and after the kernel ran."""

from __future__ import annotations

import re
from enum import StrEnum
from itertools import pairwise
from typing import Annotated, Self

from pydantic import Field, model_validator

from kerncap_stages.digest import Digest, FileRef, MemoryRef
from kerncap_stages.manifests.base import (
    Address,
    ByteRange,
    Count,
    DeviceIndex,
    Frozen,
    SizeBytes,
    refuse,
)

# Flags of managed memory: it stays on the host and kernels access it over the bus; it is copied to each
# reader.
ON_HOST_FLAG = "stays_on_host"
READ_MOSTLY_FLAG = "read_mostly"
# Prefix of a flag: mappings with the same number after it map the same physical memory.
PHYSICAL_FLAG = "physical:"
_PIECE = re.compile(r"[0-9]{1,9}")

_ADDRESS_SPACE = 2**64
# Address range of a process on x86-64 with five levels of page tables; Linux never maps the first pages.
_PROCESS_SPACE = (1 << 16, 1 << 57)

# Below 64, because the replayer gets these devices as a bit mask of 64 bits.
_SharingDevice = Annotated[int, Field(ge=0, lt=64)]


class MemoryKind(StrEnum):
    """How the program allocated a region; a replay allocates it the same way."""

    DEVICE_COARSE = "device_coarse"
    DEVICE_FINE = "device_fine"
    DEVICE_EXTENDED_FINE = "device_extended_fine"
    VMEM = "vmem"
    ASYNC_POOL = "async_pool"
    IPC = "ipc"
    HOST_COARSE = "host_coarse"
    HOST_PINNED = "host_pinned"
    HOST_REGISTERED = "host_registered"
    MANAGED = "managed"
    KERNARG = "kernarg"
    CODE_OBJECT = "code_object"


class Snapshot(Frozen):
    """Contents of a piece of memory before and after the dispatch."""

    pre: MemoryRef | None = Field(default=None, description="contents before the kernel; none if left out")
    post: MemoryRef | None = Field(default=None, description="contents after the kernel; none if left out")
    written: tuple[ByteRange, ...] | None = Field(
        default=None, description="ranges in which pre and post differ, ascending; none without post"
    )
    written_size_bytes: SizeBytes | None = Field(
        default=None, description="exact number of bytes that differ"
    )
    left_out_reason: str | None = Field(default=None, description="why there is no pre-state")

    def _check(self, size_bytes: int) -> None:
        refuse(
            (self.pre is None) != (self.left_out_reason is not None),
            "needs either a pre-state or the reason why there is none",
        )
        refuse(self.post is not None and self.pre is None, "a post-state needs a pre-state")
        refuse((self.post is None) != (self.written is None), "a write set goes with a post-state")
        refuse(
            (self.written is None) != (self.written_size_bytes is None),
            "written ranges and their size go together",
        )
        ends = [0]
        for offset, length in self.written or ():
            refuse(offset < ends[-1], "written ranges overlap or are not in order")
            ends.append(offset + length)
        refuse(ends[-1] > size_bytes, "a written range ends outside the memory")


class Region(Snapshot):
    """An allocation or mapping."""

    base_address: Address
    size_bytes: SizeBytes
    kind: MemoryKind
    device_index: DeviceIndex | None = Field(description="the owner; none for host memory")
    accessible_from: tuple[_SharingDevice, ...] = Field(
        description="devices that may access it, including the owner"
    )
    read_only: bool = False
    host_address: Address | None = Field(
        default=None, description="host address of registered memory, where the device has another one"
    )
    alignment_bytes: Count | None = Field(default=None, description="granule of the pool or mapping")
    flags: tuple[str, ...] = Field(default=(), description="further flags, by the runtime's own names")

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        self._check(self.size_bytes)
        refuse(
            self.base_address + self.size_bytes > _ADDRESS_SPACE, "the region ends outside the address space"
        )
        for flag in self.flags:
            is_piece = _PIECE.fullmatch(flag.removeprefix(PHYSICAL_FLAG)) is not None
            refuse(
                flag.startswith(PHYSICAL_FLAG) and not is_piece,
                f"{flag!r} has no number of a piece of physical memory",
            )
        return self

    @property
    def end_address(self) -> int:
        """The first address after the region."""
        return self.base_address + self.size_bytes

    def contains(self, address: int) -> bool:
        """Whether an address lies in the region."""
        return self.base_address <= address < self.end_address

    @property
    def physical_piece(self) -> int:
        """A number that mappings of the same physical memory share; 0 if there is no other mapping."""
        named = (flag.removeprefix(PHYSICAL_FLAG) for flag in self.flags if flag.startswith(PHYSICAL_FLAG))
        return next(map(int, named), 0)


class ModuleVariable(Snapshot):
    """A ``__device__`` or ``__constant__`` variable of a loaded code object."""

    symbol: str = Field(min_length=1)
    code_object: Digest = Field(description="SHA-256 of the code object; a bare digest: it may not be stored")
    device_index: DeviceIndex
    address: Address
    size_bytes: SizeBytes
    is_const: bool | None = None

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        self._check(self.size_bytes)
        refuse(self.address + self.size_bytes > _ADDRESS_SPACE, "the variable ends outside the address space")
        return self


class LoadedCodeObject(Frozen):
    """A code object in a device's memory, where function pointers point to. The kernel's own comes first."""

    code_object: Digest | None = Field(
        description="none if the capture knows where it was loaded, but not its bytes"
    )
    payload: FileRef | None = Field(default=None, description="bytes of the code object, if they are stored")
    device_index: DeviceIndex
    load_address: Address
    load_size_bytes: SizeBytes
    uri: str | None = None

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        end = self.load_address + self.load_size_bytes
        refuse(end > _ADDRESS_SPACE, "the code object ends outside the address space")
        return self


def check_ascending(regions: tuple[Region, ...]) -> None:
    """Raise ValueError unless regions are in order of address and those with a pre-state do not overlap.

    The order makes the manifests of equal captures equal.
    """
    for before, after in pairwise(regions):
        refuse(before.base_address > after.base_address, "regions are not in order of address")
    for before, after in pairwise([region for region in regions if region.pre is not None]):
        end = before.end_address
        refuse(end > after.base_address, f"two regions contain the address {after.base_address:#x}")


def check_places(regions: tuple[Region, ...]) -> None:
    """Raise ValueError for a region outside of a process's address range, where no replay could place it.

    Regions of CUDA programs always lie in that range.
    """
    least, end = _PROCESS_SPACE
    for region in regions:
        is_inside = least <= region.base_address and region.end_address <= end
        refuse(not is_inside, f"region {region.base_address:#x} lies where no process can have memory")
