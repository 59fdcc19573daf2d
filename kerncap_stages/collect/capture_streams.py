"""Data of a capture that is still arriving: streams of region contents and code, and pieces being staged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kerncap_stages._native import StartedPiece
    from kerncap_stages.collect.capture_builder import CaptureBuilder
    from kerncap_stages.collect.protocol import StreamKind


@dataclass
class Stream:
    """The contents of a region or a file, which arrive as pieces in order."""

    kind: StreamKind
    builder: CaptureBuilder | None  # None for code, and for a capture that has failed already
    index: int
    size_bytes: int
    writer: Any = None  # a MemoryWriter, or a file for code; None drops the bytes
    received_bytes: int = 0
    pieces: int = 0  # pieces that are not staged yet
    is_closed: bool = False

    @property
    def is_wanted(self) -> bool:
        """Whether the bytes are stored: the capture library also sends those of an abandoned capture."""
        return self.writer is not None and (self.builder is None or not self.builder.is_abandoned)


@dataclass
class Piece:
    """A staging slot whose bytes are being stored."""

    stream: Stream
    slot: int
    view: memoryview
    started: StartedPiece
