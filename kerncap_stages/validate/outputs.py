"""Reads the outputs of a replay from its files into the store.

For each region the replayer writes a file with the region's size, and a list of the chunks that the file
holds. All other chunks did not change.
"""

from __future__ import annotations

from functools import partial
from itertools import count, takewhile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kerncap_stages.digest import MemoryRef
from kerncap_stages.store.chunks import read_chunk, read_chunk_list

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.memory import Region
    from kerncap_stages.store import Store, Transaction
    from kerncap_stages.validate.compare.relocation import Relocation


def find_missing_state(capture: Capture, folder: Path) -> Region | None:
    """Return the first region whose state is missing or incomplete; None if all are complete."""
    return next(
        (region for region in capture.regions if region.pre is not None and not _is_whole(region, folder)),
        None,
    )


def store_outputs(
    store: Store,
    capture: Capture,
    folder: Path,
    relocation: Relocation | None,
    before: Mapping[int, MemoryRef] | None = None,
) -> dict[int, MemoryRef]:
    """Store the outputs of a run, by base address: ``before`` with the chunks that the replayer listed.

    before: the states that it compared with; by default the capture's pre-states.
    """
    if before is None:
        before = {region.base_address: region.pre for region in capture.regions if region.pre is not None}
    return _store_outputs(store, capture, before, folder, relocation)


def store_differing(
    store: Store,
    capture: Capture,
    first: Mapping[int, MemoryRef],
    folder: Path,
    relocation: Relocation | None,
) -> tuple[dict[int, MemoryRef], ...]:
    """Store the outputs of further runs that differ from the first one, as many as the replayer kept."""
    folders = takewhile(Path.is_dir, (folder / f"differing_{number}" for number in count(1)))
    return tuple(_store_outputs(store, capture, first, each, relocation) for each in folders)


def _store_outputs(
    store: Store,
    capture: Capture,
    base: Mapping[int, MemoryRef],
    folder: Path,
    relocation: Relocation | None,
) -> dict[int, MemoryRef]:
    outputs = dict(base)
    with store.begin_transaction() as transaction:
        for region in capture.regions:
            if region.pre is not None and _is_whole(region, folder):
                outputs[region.base_address] = _apply_changes(
                    store, transaction, region, base[region.base_address], folder, relocation
                )
        transaction.publish_objects()
    return outputs


def _name_files(region: Region, folder: Path) -> tuple[Path, Path]:
    path = folder / f"region_{region.base_address:016x}.bin"
    return path, path.with_suffix(".chunks")


def _is_whole(region: Region, folder: Path) -> bool:
    path, listed = _name_files(region, folder)
    return listed.exists() and path.exists() and path.stat().st_size == region.size_bytes


def _apply_changes(
    store: Store,
    transaction: Transaction,
    region: Region,
    base: MemoryRef,
    folder: Path,
    relocation: Relocation | None,
) -> MemoryRef:
    """Stage a state that is ``base`` with some chunks from a file."""
    path, listed = _name_files(region, folder)
    changed = [int(line) for line in listed.read_text().split()]
    if not changed or region.pre is None:
        return base
    before, memory = read_chunk_list(store, region.pre), read_chunk_list(store, base)
    content = np.memmap(path, np.uint8, "r")
    writer = transaction.open_memory_writer(memory.size_bytes)
    done = 0
    for index in (*changed, len(memory.digests)):
        same = memory.digests[done:index]
        if same:
            writer.append_same(sum(memory.measure(i) for i in range(done, index)), same)
        if index < len(memory.digests):
            start = index * memory.chunk_size_bytes
            chunk = np.array(content[start : start + memory.measure(index)])
            if relocation is not None:
                relocation.apply(chunk, partial(read_chunk, store, before, index))
            writer.append(chunk)
        done = index + 1
    return MemoryRef.to(writer.finish())
