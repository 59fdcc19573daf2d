"""How a capture is run again, as a stage is asked for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from kerncap_stages.manifests.base import Dim3
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.replaying.process import Report
    from kerncap_stages.replaying.runner import ReplayRequest


@dataclass(frozen=True)
class ReplayOptions:
    """How a capture is run again."""

    variant: Path | None = None
    interleave: bool = False
    iterations: int = 1
    warmup: int = 0
    flush_cache: bool = False
    hip_launch: bool = False
    verify: bool = True
    dump_folder: Path | None = None
    grid_work_items: Dim3 | None = None
    block_work_items: Dim3 | None = None
    dynamic_lds_bytes: int | None = None
    timeout_s: float | None = 300.0
    device: int | None = None
    progress: Report | None = None

    def request(self, capture: Capture) -> ReplayRequest:
        """What the native replayer is asked to do."""
        from kerncap_stages.replaying.runner import ReplayRequest

        devices = {} if self.device is None else {capture.dispatch.device_index: self.device}
        return ReplayRequest(
            variant=self.variant,
            iterations=self.iterations,
            warmup=self.warmup,
            flush_cache=self.flush_cache,
            # A launch of another shape is another computation.
            compare=capture.has_post and self.grid_work_items is None and self.block_work_items is None,
            interleave=self.interleave,
            hip_launch=self.hip_launch,
            verify=self.verify,
            dump_folder=self.dump_folder,
            grid_work_items=self.grid_work_items,
            block_work_items=self.block_work_items,
            dynamic_lds_bytes=self.dynamic_lds_bytes,
            timeout_s=self.timeout_s,
            devices=devices,
            progress=self.progress,
        )
