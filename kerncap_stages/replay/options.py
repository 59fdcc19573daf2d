"""The options of a replay, as the user gives them to a stage."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kerncap_stages.replay.variant_shape import count_work_items

if TYPE_CHECKING:
    from pathlib import Path

    from kerncap_stages.manifests.base import Dim3
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.kernel import Launch
    from kerncap_stages.replay.process import Report
    from kerncap_stages.replay.runner import ReplayRequest
    from kerncap_stages.replay.variant_shape import VariantShape


@dataclass(frozen=True)
class ReplayOptions:
    """The options of a replay.

    variant_shape: of the variant alone. The other shapes are of all that is launched.
    """

    variant: Path | None = None
    interleave: bool = False
    iterations: int = 1
    warmup: int = 0
    flush_cache: bool = False
    hip_launch: bool = False
    verify: bool = True
    dump_folder: Path | None = None
    grid_work_items: Dim3 | None = None
    grid_blocks: Dim3 | None = None  # replaces grid_work_items
    block_work_items: Dim3 | None = None
    dynamic_lds_bytes: int | None = None
    variant_shape: VariantShape | None = None
    timeout_s: float | None = 300.0
    device: int | None = None
    progress: Report | None = None

    @property
    def has_shape(self) -> bool:
        """Whether the user gave a shape or a size of the launch."""
        given = (self.grid_work_items, self.grid_blocks, self.block_work_items, self.dynamic_lds_bytes)
        return any(each is not None for each in given)

    def resolve(self, launch: Launch) -> ReplayOptions:
        """Convert the grid to work-items, and drop shapes that are the same in the captured launch.

        Raises UsageError if the grid has more work-items along an axis than fit.
        """
        grid = self.grid_work_items
        block = self.block_work_items or launch.block_work_items
        if self.grid_blocks is not None:
            grid = count_work_items(self.grid_blocks, block)
        return replace(
            self,
            grid_work_items=None if grid == launch.grid_work_items else grid,
            grid_blocks=None,
            block_work_items=None if block == launch.block_work_items else block,
        )

    def make_request(self, capture: Capture) -> ReplayRequest:
        """Make the request to the native replayer."""
        # The key of a request needs the options, but not what runs a replay.
        from kerncap_stages.replay.runner import ReplayRequest

        devices = {} if self.device is None else {capture.dispatch.device_index: self.device}
        return ReplayRequest(
            variant=self.variant,
            iterations=self.iterations,
            warmup=self.warmup,
            flush_cache=self.flush_cache,
            # A launch of another shape computes something else.
            compare=capture.has_post and self.grid_work_items is None and self.block_work_items is None,
            interleave=self.interleave,
            hip_launch=self.hip_launch,
            verify=self.verify,
            dump_folder=self.dump_folder,
            grid_work_items=self.grid_work_items,
            block_work_items=self.block_work_items,
            dynamic_lds_bytes=self.dynamic_lds_bytes,
            variant_shape=self.variant_shape,
            timeout_s=self.timeout_s,
            devices=devices,
            progress=self.progress,
        )
