"""Describes captured memory for the manifest: regions and module variables, in both states."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kerncap_stages.collect.protocol import NO_DEVICE, RegionFlag
from kerncap_stages.collect.wire import ProtocolError
from kerncap_stages.collect.write_set import (
    WrittenRanges,
    find_changed_ranges,
    find_written_ranges,
    read_part,
)
from kerncap_stages.digest import Digest, MemoryRef
from kerncap_stages.manifests.capture import Reach
from kerncap_stages.manifests.memory import (
    ON_HOST_FLAG,
    READ_MOSTLY_FLAG,
    MemoryKind,
    ModuleVariable,
    Region,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kerncap_stages.collect import protocol
    from kerncap_stages.collect.modules import Module
    from kerncap_stages.store import Transaction


@dataclass
class SentRegion:
    """A region as the capture library listed it, and the digests of its states once they arrived."""

    sent: protocol.Region
    pre: Digest | None = None
    post: Digest | None = None
    has_vanished: bool = False  # the program unmapped it while it was copied

    @property
    def left_out_reason(self) -> str | None:
        """Why the region has no states; None if it has."""
        if self.has_vanished:
            return "the program unmapped it during the capture"
        return "not reachable from the arguments" if self.pre is None else None


def _find_written(transaction: Transaction, region: SentRegion) -> WrittenRanges | None:
    if region.pre is None or region.post is None:
        return None
    return find_written_ranges(transaction, MemoryRef.to(region.pre), MemoryRef.to(region.post))


def describe_regions(
    transaction: Transaction, regions: Sequence[SentRegion], reach: Reach
) -> tuple[Region, ...]:
    """Describe the regions for a manifest, and find what the kernel changed in them."""
    if reach is not Reach.REACHABLE and any(
        region.pre is None and not region.has_vanished for region in regions
    ):
        raise ProtocolError("the capture library did not send all regions")
    mappings = Counter(region.sent.piece for region in regions if region.sent.piece != 0)
    return tuple(
        _describe_region(region, _find_written(transaction, region), mappings[region.sent.piece] > 1)
        for region in regions
    )


def _describe_region(region: SentRegion, written: WrittenRanges | None, is_shared: bool) -> Region:
    sent = region.sent
    flags = {
        RegionFlag.EXECUTABLE: "executable",
        RegionFlag.UNCACHED: "uncached",
        RegionFlag.STAYS_ON_HOST: ON_HOST_FLAG,
        RegionFlag.READ_MOSTLY: READ_MOSTLY_FLAG,
    }
    return Region(
        base_address=sent.base,
        size_bytes=sent.size_bytes,
        kind=MemoryKind[sent.kind.name],
        device_index=None if sent.device == NO_DEVICE else sent.device,
        accessible_from=tuple(bit for bit in range(64) if sent.access >> bit & 1),
        read_only=bool(sent.flags & RegionFlag.READ_ONLY),
        host_address=sent.host if sent.host not in (0, sent.base) else None,
        alignment_bytes=sent.align,
        flags=(
            *(name for bit, name in flags.items() if sent.flags & bit),
            *((f"physical:{sent.piece}",) if is_shared else ()),
        ),
        pre=None if region.pre is None else MemoryRef.to(region.pre),
        post=None if region.post is None else MemoryRef.to(region.post),
        written=None if written is None else written.ranges,
        written_size_bytes=None if written is None else written.size_bytes,
        left_out_reason=region.left_out_reason,
    )


def describe_variables(
    transaction: Transaction, regions: Sequence[SentRegion], module: Module, code_object: Digest
) -> tuple[ModuleVariable, ...]:
    """Describe the variables of the kernel's own code object: they are parts of captured regions."""
    found = []
    for variable in module.variables:
        region = next(
            (
                region
                for region in regions
                if region.sent.base <= variable.address
                and variable.address + variable.size_bytes <= region.sent.base + region.sent.size_bytes
            ),
            None,
        )
        if region is None or region.pre is None:
            continue
        states: dict[str, Digest] = {}
        contents = {}
        for state, digest in (("pre", region.pre), ("post", region.post)):
            if digest is None:
                continue
            begin = variable.address - region.sent.base
            memory = read_part(transaction, MemoryRef.to(digest), begin, variable.size_bytes)
            contents[state] = memory
            states[state] = transaction.put_memory(memory)
        post = states.get("post")
        written = None if post is None else find_changed_ranges(contents["pre"], contents["post"])
        found.append(
            ModuleVariable(
                symbol=variable.name,
                code_object=code_object,
                device_index=module.device,
                address=variable.address,
                size_bytes=variable.size_bytes,
                is_const=variable.is_const,
                pre=MemoryRef.to(states["pre"]),
                post=None if post is None else MemoryRef.to(post),
                written=None if written is None else written.ranges,
                written_size_bytes=None if written is None else written.size_bytes,
            )
        )
    return tuple(found)
