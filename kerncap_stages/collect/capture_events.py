"""What the sessions of kc-capture tell the stage."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kerncap_stages.collect.protocol import FailureCode
    from kerncap_stages.manifests.base import Dim3


@dataclass(frozen=True)
class Captured:
    """A capture is in the store."""

    digest: Any
    manifest: Any
    seconds: float


@dataclass(frozen=True)
class CaptureFailed:
    """A capture was begun and could not be made; the program went on."""

    process_id: int
    reason: str
    code: FailureCode | None = None
    error: Exception | None = None  # of ours
    process_ended: bool = False


@dataclass(frozen=True)
class Warned:
    """The capture library has something to say."""

    process_id: int
    text: str


@dataclass
class ProcessSummary:
    """What one process did, for the words at the end."""

    process_id: int
    backend: str = ""
    kernels: set[str] = field(default_factory=set)
    matched: list[int] = field(default_factory=list)
    # (grid in work-groups, block): the latest that each selection's shape excluded
    other_shapes: list[tuple[Dim3, Dim3]] = field(default_factory=list)
    dispatches: int = 0
    uninterceptable_queues: int = 0
    unlisted: int = 0  # dispatches of kernels that no loaded code object lists
    lost: bool = False  # it went on without its connection to us

    def unseen(self) -> Iterator[str]:
        """Say why dispatches of it were not seen."""
        if self.uninterceptable_queues:
            yield f"{self.uninterceptable_queues} queues could not be watched: dispatches there were not seen"
        if self.lost:
            yield f"{LOST}: dispatches since then were not seen"


# A program may close descriptors that it did not open, as daemons do.
# It goes on without a stage that was stopped, too.
LOST = (
    "the process closed its connection to us, became another program by exec, or waited for us in vain,"
    " and went on"
)
