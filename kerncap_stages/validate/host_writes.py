"""Finds changes that threads of the program made on the host while the captured kernel ran.

Data loaders fill pinned memory like this, and a capture cannot stop a thread that only writes memory. Bytes
that changed in the program, but that replays of the captured kernel leave as they were, were written by the
host, unless the replays write nothing at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kerncap_stages.digest import MemoryRef
from kerncap_stages.manifests.memory import MemoryKind
from kerncap_stages.store.chunks import read_chunk, read_chunk_list
from kerncap_stages.text.formats import count

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy.typing as npt

    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.memory import Region
    from kerncap_stages.store import Store
    from kerncap_stages.validate.replays.replayer import Run

# Kernel and host write different cache lines. The same size as in native/replay/comparison.cpp.
CELL_BYTES = 64
_OF_THE_PROCESSOR = frozenset(
    {MemoryKind.HOST_COARSE, MemoryKind.HOST_PINNED, MemoryKind.HOST_REGISTERED, MemoryKind.MANAGED}
)
# These kinds are host memory if no device owns the region.
_MAPPED = frozenset({MemoryKind.VMEM, MemoryKind.ASYNC_POOL, MemoryKind.IPC})


@dataclass(frozen=True)
class HostWrites:
    """Bytes of a region that changed in the program, but not in a run. ``expected``: golden without them."""

    region: Region
    expected: MemoryRef
    size_bytes: int  # number of these bytes


def find_host_writes(
    store: Store, capture: Capture, golden: Mapping[int, MemoryRef], run: Run
) -> list[HostWrites]:
    """Find host-accessible memory that changed in the program, but not in a replay."""
    found = []
    for region in capture.regions:
        after, actual = golden.get(region.base_address), run.outputs.get(region.base_address)
        is_shared = region.kind in _OF_THE_PROCESSOR or (
            region.device_index is None and region.kind in _MAPPED
        )
        if not is_shared or region.pre is None or after is None or actual is None:
            continue
        if after in (region.pre, actual):
            continue
        if region.kind is MemoryKind.MANAGED and actual != region.pre:
            continue  # the kernel writes this region, so bytes that it leaves alone may be its outputs, too
        expected, size_bytes = _restore_untouched(store, region.pre, after, actual)
        if size_bytes:
            found.append(HostWrites(region, expected, size_bytes))
    return found


def _restore_untouched(
    store: Store, pre: MemoryRef, after: MemoryRef, actual: MemoryRef
) -> tuple[MemoryRef, int]:
    """Stage the golden state without bytes that a run left alone; also returns how many these are."""
    before, golden, left = (read_chunk_list(store, each) for each in (pre, after, actual))
    size_bytes = 0
    with store.begin_transaction() as transaction:
        writer = transaction.open_memory_writer(golden.size_bytes)
        for index, digest in enumerate(golden.digests):
            if digest in (before.digests[index], left.digests[index]):
                writer.append_same(golden.measure(index), [digest])
                continue
            states = tuple(read_chunk(store, each, index) for each in (before, golden, left))
            own = mark_untouched(*states)
            size_bytes += int(np.count_nonzero(own))
            writer.append(np.where(own, states[0], states[1]))
        expected = MemoryRef.to(writer.finish())
        transaction.publish_objects()
    return expected, size_bytes


def mark_untouched(
    before: npt.NDArray[np.uint8], golden: npt.NDArray[np.uint8], left: npt.NDArray[np.uint8]
) -> npt.NDArray[np.bool_]:
    """Mark bytes that changed in the program, in cells that a run left as they were: bool[size]."""
    same = np.ones(-(-before.size // CELL_BYTES) * CELL_BYTES, np.bool_)
    same[: before.size] = before == left
    alone = np.repeat(same.reshape(-1, CELL_BYTES).all(axis=1), CELL_BYTES)[: before.size]
    own: npt.NDArray[np.bool_] = (before != golden) & alone
    return own


def exclude_host_writes(
    store: Store,
    capture: Capture,
    golden: Mapping[int, MemoryRef],
    run: Run,
    baseline: Callable[[], Run],
) -> tuple[dict[int, MemoryRef], list[str]]:
    """Return the golden state without the host's writes, which a kernel must leave alone; and notes.

    baseline: replays the captured kernel; called only if ``run`` left alone bytes that changed in the
    program.
    """
    expected = dict(golden)
    if not find_host_writes(store, capture, golden, run):
        return expected, []
    known = baseline()
    found = find_host_writes(store, capture, golden, known)
    before = {region.base_address: region.pre for region in capture.regions}
    if found and all(state == before.get(base) for base, state in known.outputs.items()):
        return expected, [
            "replays of the captured kernel change nothing: perhaps threads of the program made the changes "
            "in the capture, or the kernel waits for these threads; capture another dispatch"
        ]
    for part in found:
        expected[part.region.base_address] = part.expected
    return expected, [_explain(part) for part in found]


def _explain(part: HostWrites) -> str:
    where = f"region {part.region.base_address:#x} ({part.region.kind.value})"
    if part.expected == part.region.pre:
        return (
            f"{where} was changed by the program itself while the captured kernel ran, and the kernel leaves "
            "it alone: the variant must leave it alone, too"
        )
    return (
        f"{count(part.size_bytes, 'byte')} of {where}: changed by the program itself while the captured "
        "kernel ran, and the kernel leaves them alone; the variant must leave them alone, too"
    )
