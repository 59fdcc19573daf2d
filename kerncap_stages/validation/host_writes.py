"""Changes that the program's processor made while the captured kernel ran: loaders fill pinned memory so.

No capture can stop a thread that only writes memory. What replays of the captured kernel leave as it was, it
did not write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerncap_stages.manifests.memory import MemoryKind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kerncap_stages.digest import MemoryRef
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.memory import Region
    from kerncap_stages.validation.judgement import Judgement
    from kerncap_stages.validation.runs import Run

_OF_THE_PROCESSOR = frozenset(
    {MemoryKind.HOST_COARSE, MemoryKind.HOST_PINNED, MemoryKind.HOST_REGISTERED, MemoryKind.MANAGED}
)


def changed_by_host(capture: Capture, golden: Mapping[int, MemoryRef], run: Run) -> list[Region]:
    """Memory that the processor writes, too, and that changed in the program and not in a replay."""
    return [
        region
        for region in capture.regions
        if region.kind in _OF_THE_PROCESSOR
        and region.pre is not None
        and golden.get(region.base_address, region.pre) != region.pre
        and run.outputs.get(region.base_address) == region.pre
    ]


def without_host_writes(
    capture: Capture,
    golden: Mapping[int, MemoryRef],
    run: Run,
    baseline: Callable[[], Run],
    judgement: Judgement,
) -> dict[int, MemoryRef]:
    """Return the golden state with that memory as it was before: a kernel must leave it so.

    baseline: replays the captured kernel; asked only where ``run`` leaves alone what changed in the program.
    """
    suspects = changed_by_host(capture, golden, run)
    known = baseline() if suspects else run
    expected = dict(golden)
    for region in suspects:
        if region.pre is not None and known.outputs.get(region.base_address) == region.pre:
            expected[region.base_address] = region.pre
            judgement.note(
                f"region {region.base_address:#x} ({region.kind.value}) was changed by the program itself "
                "while the captured kernel ran, which leaves it alone: it has to stay as it was"
            )
    return expected
