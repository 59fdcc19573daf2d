"""Device and host memory that a kernel could reach, before and after it ran."""

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

# Of managed memory: kernels reach it over the bus; it is copied to whoever reads it.
ON_HOST_FLAG = "stays_on_host"
READ_MOSTLY_FLAG = "read_mostly"
# Of mappings of the same physical memory: followed by one number.
PHYSICAL_FLAG = "physical:"
_PIECE = re.compile(r"[0-9]{1,9}")

_ADDRESS_SPACE = 2**64
# Of a process on x86-64, with five levels of page tables; Linux leaves the first pages to nobody.
_PROCESS_SPACE = (1 << 16, 1 << 57)

# A replay is told of them as a mask.
_SharingDevice = Annotated[int, Field(ge=0, lt=64)]


class MemoryKind(StrEnum):
    """How a region was allocated, and so how replay must make it again."""

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
    """Contents of a piece of memory on both sides of the dispatch."""

    pre: MemoryRef | None = Field(default=None, description="before the kernel; none when left out")
    post: MemoryRef | None = Field(default=None, description="after it; none with --no-post or left out")
    written: tuple[ByteRange, ...] | None = Field(
        default=None, description="where pre and post differ, ascending; none without post"
    )
    written_size_bytes: SizeBytes | None = Field(default=None, description="how many bytes differ, exactly")
    left_out_reason: str | None = Field(default=None, description="why there is no pre-state")

    def _check(self, size_bytes: int) -> None:
        refuse((self.pre is None) != (self.left_out_reason is not None), "left out without a reason")
        refuse(self.post is not None and self.pre is None, "a post-state needs a pre-state")
        refuse((self.post is None) != (self.written is None), "a write set goes with a post-state")
        refuse((self.written is None) != (self.written_size_bytes is None), "written needs its size")
        ends = [0]
        for offset, length in self.written or ():
            refuse(offset < ends[-1], "written ranges overlap or are not in order")
            ends.append(offset + length)
        refuse(ends[-1] > size_bytes, "a written range ends outside")


class Region(Snapshot):
    """One allocation or mapping."""

    base_address: Address
    size_bytes: SizeBytes
    kind: MemoryKind
    device_index: DeviceIndex | None = Field(description="the owner; none for host memory")
    accessible_from: tuple[_SharingDevice, ...] = Field(
        description="devices with a right to it, the owner too"
    )
    read_only: bool = False
    host_address: Address | None = Field(
        default=None, description="of registered host memory, where it differs from the device's address"
    )
    alignment_bytes: Count | None = Field(default=None, description="granule of the pool or mapping")
    flags: tuple[str, ...] = Field(default=(), description="further flags, by the runtime's own names")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        self._check(self.size_bytes)
        refuse(
            self.base_address + self.size_bytes > _ADDRESS_SPACE, "the region ends outside the address space"
        )
        for flag in self.flags:
            is_piece = _PIECE.fullmatch(flag.removeprefix(PHYSICAL_FLAG)) is not None
            refuse(flag.startswith(PHYSICAL_FLAG) and not is_piece, f"{flag!r} names no piece of memory")
        return self

    @property
    def end_address(self) -> int:
        """The first address behind it."""
        return self.base_address + self.size_bytes

    def contains(self, address: int) -> bool:
        """Whether an address lies in it."""
        return self.base_address <= address < self.end_address

    @property
    def physical_piece(self) -> int:
        """Mappings of one number are of the same physical memory; 0: it is mapped nowhere else."""
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
    def _consistent(self) -> Self:
        self._check(self.size_bytes)
        refuse(self.address + self.size_bytes > _ADDRESS_SPACE, "the variable ends outside the address space")
        return self


class LoadedCodeObject(Frozen):
    """A code object in a device's memory: function pointers lead there. The kernel's own is the first."""

    code_object: Digest | None = Field(
        description="none where only its place is known: its bytes were not sent"
    )
    payload: FileRef | None = Field(default=None, description="the bytes, where they are stored")
    device_index: DeviceIndex
    load_address: Address
    load_size_bytes: SizeBytes
    uri: str | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        end = self.load_address + self.load_size_bytes
        refuse(end > _ADDRESS_SPACE, "the code object ends outside the address space")
        return self


def check_ascending(regions: tuple[Region, ...]) -> None:
    """Regions are listed by address: equal captures have equal manifests. Those that were taken lie apart."""
    for before, after in pairwise(regions):
        refuse(before.base_address > after.base_address, "regions are not in order of address")
    for before, after in pairwise([region for region in regions if region.pre is not None]):
        end = before.end_address
        refuse(end > after.base_address, f"two regions hold the address {after.base_address:#x}")


def check_places(regions: tuple[Region, ...]) -> None:
    """No CUDA program has memory where no process can have any, and no replay could place it there."""
    least, end = _PROCESS_SPACE
    for region in regions:
        is_inside = least <= region.base_address and region.end_address <= end
        refuse(not is_inside, f"no process has memory where region {region.base_address:#x} lies")
