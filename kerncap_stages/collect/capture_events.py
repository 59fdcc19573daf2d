"""Events that the sessions of kc-capture emit for the stage."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kerncap_stages.collect.protocol import FailureCode
    from kerncap_stages.manifests.base import Dim3


@dataclass(frozen=True)
class Captured:
    """A capture was stored."""

    digest: Any
    manifest: Any
    seconds: float


@dataclass(frozen=True)
class CaptureFailed:
    """A capture was begun and failed; the program went on."""

    process_id: int
    reason: str
    code: FailureCode | None = None
    error: Exception | None = None  # raised in this process, not reported by the capture library
    process_ended: bool = False
    lost: bool = False  # the process closed its connection and went on


@dataclass(frozen=True)
class Warned:
    """A warning of the capture library or the session."""

    process_id: int
    text: str


@dataclass
class ProcessSummary:
    """What one process did: the final messages are made from it."""

    process_id: int
    backend: str = ""
    kernels: set[str] = field(default_factory=set)
    matched: list[int] = field(default_factory=list)
    trials: int = 0  # of an autotuner, which are left out
    # (grid in work-groups, block) of the latest dispatch that each selection excluded by its shape
    other_shapes: list[tuple[Dim3, Dim3]] = field(default_factory=list)
    # of loaded kernels with a name that is wanted, but not compiled so; empty for one that is not Triton's
    other_configurations: list[str] = field(default_factory=list)
    has_configuration: bool = False  # one was compiled so, and may not have been launched
    dispatches: int = 0
    uninterceptable_queues: int = 0
    unlisted: int = 0  # dispatches of kernels that no loaded code object lists
    lost: bool = False  # the process closed its connection to the collector and went on

    def explain_unseen(self) -> Iterator[str]:
        """Yield the reasons why dispatches of the process may have been missed."""
        if self.uninterceptable_queues:
            yield f"{self.uninterceptable_queues} queues could not be watched; their dispatches were not seen"
        if self.lost:
            yield f"{LOST}; later dispatches were not seen"


# Daemons close descriptors that they did not open. A stopped stage does not hold the process up either.
LOST = (
    "the process went on after it closed its connection to kerncap-stages, ran another program by exec,"
    " or gave up waiting for kerncap-stages"
)
