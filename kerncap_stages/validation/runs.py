"""One replay whose outputs are kept, in a process of its own."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kerncap_stages.digest import MemoryRef
from kerncap_stages.manifests.replay import ReplayOutcome
from kerncap_stages.replaying.runner import ReplayRequest, ReplayResult, replay_capture

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.store import Store


@dataclass(frozen=True)
class Run:
    """``outputs``: the state of each region afterwards, by base address; empty unless it completed."""

    result: ReplayResult
    outputs: Mapping[int, MemoryRef]

    @property
    def completed(self) -> bool:
        """Whether the kernel ran to its end."""
        return self.result.outcome is ReplayOutcome.COMPLETED


def run_once(store: Store, capture: Capture, variant: Path | None, timeout_s: float) -> Run:
    """Replay a capture once and store the state of every region.

    Chunks that are as before, or as another run left them, cost nothing; the rest goes with the next
    collection.
    """
    with tempfile.TemporaryDirectory(prefix="kerncap-outputs-") as name:
        folder = Path(name)
        request = ReplayRequest(variant=variant, compare=False, dump_folder=folder, timeout_s=timeout_s)
        result = replay_capture(store, capture, request)
        if result.outcome is not ReplayOutcome.COMPLETED:
            return Run(result, {})
        outputs: dict[int, MemoryRef] = {}
        with store.transaction() as transaction:
            for region in capture.regions:
                path = folder / f"region_{region.base_address:016x}.bin"
                if region.pre is not None and path.exists():
                    content = np.memmap(path, np.uint8, "r") if region.size_bytes else np.empty(0, np.uint8)
                    outputs[region.base_address] = MemoryRef.to(transaction.put_memory(content))
            transaction.publish_objects()
    return Run(result, outputs)
