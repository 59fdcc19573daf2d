"""Reads the outputs of a replay from its files into the store.

The replayer writes the chunks that it found changed, of all regions, into one file, and a list of them:
``native/replay/state_file.hpp``.
"""

from __future__ import annotations

import contextlib
from collections import deque
from dataclasses import dataclass
from functools import partial
from itertools import count, takewhile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kerncap_stages.digest import MemoryRef
from kerncap_stages.replay.plan import find_own_code
from kerncap_stages.replay.variant import extract_variant_code
from kerncap_stages.store.chunks import read_chunk, read_chunk_list
from kerncap_stages.validate.compare.relocation import Relocation

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy.typing as npt

    from kerncap_stages._native import StartedPiece
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.memory import Region
    from kerncap_stages.replay.report import ReplayResult
    from kerncap_stages.store import Store, Transaction

_MOST_STARTED = 32  # chunks that are in memory because they are being hashed


@dataclass(frozen=True)
class _Changes:
    """The changed chunks of a region, and where the first of them is in the file."""

    size_bytes: int
    offset_bytes: int
    chunks: tuple[int, ...]


def find_golden(capture: Capture) -> dict[int, MemoryRef] | None:
    """Return the golden outputs by region; None if the capture has none."""
    if not capture.has_post:
        return None
    return {each.base_address: each.post for each in capture.regions if each.post is not None}


def find_missing_state(capture: Capture, folder: Path) -> Region | None:
    """Return the first region that the replayer did not list, or with another size; None if all are there."""
    found = _read_list(folder)
    return next(
        (region for region in capture.regions if region.pre is not None and not _is_whole(region, found)),
        None,
    )


def count_whole(capture: Capture, folder: Path, most: int) -> int:
    """Count the further states whose outputs the replayer had dumped before it ended."""
    whole = takewhile(
        lambda number: find_missing_state(capture, folder / f"state_{number}") is None, range(1, most)
    )
    return sum(1 for _ in whole)


@contextlib.contextmanager
def publish_staged(store: Store) -> Iterator[Transaction]:
    """Publish what a ``with`` block stages: all outputs of one replay together."""
    with store.begin_transaction() as transaction:
        yield transaction
        transaction.publish_objects()


def stage_outputs(
    transaction: Transaction,
    capture: Capture,
    folder: Path,
    relocation: Relocation | None,
    before: Mapping[int, MemoryRef] | None = None,
) -> dict[int, MemoryRef]:
    """Stage the outputs of a run, by base address: ``before`` with the chunks that the replayer listed.

    before: the states that it compared with; by default the capture's pre-states.
    """
    if before is None:
        before = {region.base_address: region.pre for region in capture.regions if region.pre is not None}
    outputs = dict(before)
    found = _read_list(folder)
    if not any(changes.chunks for changes in found.values()):
        return outputs
    content = np.memmap(folder / "changes.bin", np.uint8, "r")
    for region in capture.regions:
        if region.pre is not None and _is_whole(region, found):
            changes = found[region.base_address]
            outputs[region.base_address] = _apply_changes(
                transaction,
                region.pre,
                before[region.base_address],
                changes.chunks,
                content[changes.offset_bytes :],
                relocation,
            )
    return outputs


def stage_differing(
    transaction: Transaction,
    capture: Capture,
    first: Mapping[int, MemoryRef],
    folder: Path,
    relocation: Relocation | None,
) -> tuple[dict[int, MemoryRef], ...]:
    """Stage the outputs of further runs that differ from the first one, as many as the replayer kept."""
    folders = takewhile(Path.is_dir, (folder / f"differing_{number}" for number in count(1)))
    return tuple(stage_outputs(transaction, capture, each, relocation, first) for each in folders)


def _read_list(folder: Path) -> dict[int, _Changes]:
    """Return what the replayer looked at, by base address; empty if it did not finish."""
    try:
        lines = (folder / "changes.list").read_text(encoding="ascii").splitlines()
    except FileNotFoundError:
        return {}
    found = {}
    for line in filter(None, lines):
        base, size_bytes, offset_bytes, *chunks = map(int, line.split())
        found[base] = _Changes(size_bytes, offset_bytes, tuple(chunks))
    return found


def _is_whole(region: Region, found: Mapping[int, _Changes]) -> bool:
    changes = found.get(region.base_address)
    return changes is not None and changes.size_bytes == region.size_bytes


def _apply_changes(
    transaction: Transaction,
    pre: MemoryRef,
    base: MemoryRef,
    changed: Sequence[int],
    content: npt.NDArray[np.uint8],
    relocation: Relocation | None,
) -> MemoryRef:
    """Stage a state that is ``base`` with some chunks replaced.

    content: begins with these chunks, one after the other.
    """
    if not changed:
        return base
    before, memory = read_chunk_list(transaction, pre), read_chunk_list(transaction, base)
    writer = transaction.open_memory_writer(memory.size_bytes)
    started: deque[StartedPiece] = deque()  # all cores hash them
    done = at = 0
    for index in (*changed, len(memory.digests)):
        same = memory.digests[done:index]
        if same:
            writer.append_same(sum(memory.measure(i) for i in range(done, index)), same)
        if index < len(memory.digests):
            end = at + memory.measure(index)
            chunk = np.array(content[at:end])
            at = end
            if relocation is not None:
                relocation.apply(chunk, partial(read_chunk, transaction, before, index))
            started.append(writer.start(chunk))
            if len(started) > _MOST_STARTED:
                started.popleft().finish()
        done = index + 1
    for piece in started:
        piece.finish()
    return MemoryRef.to(writer.finish())


def make_relocation(
    store: Store, capture: Capture, variant: Path | None, result: ReplayResult
) -> Relocation | None:
    """Return what replaces addresses of a variant's code by the captured ones; None if there are none."""
    own = find_own_code(capture)
    if variant is None or own is None:
        return None
    captured = store.get_kept(capture.code_digest)
    code = extract_variant_code(variant.read_bytes(), capture)
    return Relocation(captured, own.load_address, code, *result.variant_loaded)
