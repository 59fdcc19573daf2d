"""What of a capture is on its way: contents of regions, code, and the pieces that are being staged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kerncap_stages._native import StartedPiece
    from kerncap_stages.collect.capture_builder import CaptureBuilder
    from kerncap_stages.collect.protocol import StreamKind


@dataclass
class Stream:
    """The contents of a region or a file: pieces in order, to whoever takes them in."""

    kind: StreamKind
    builder: CaptureBuilder | None  # none: of code, or of a capture that failed before
    index: int
    size_bytes: int
    writer: Any = None  # a MemoryWriter, for code a file; none: nobody takes the bytes in
    received_bytes: int = 0
    pieces: int = 0  # that are not staged yet
    is_closed: bool = False

    @property
    def is_wanted(self) -> bool:
        """Not once its capture has failed on our side: the library still finishes its sending."""
        return self.writer is not None and (self.builder is None or not self.builder.is_abandoned)


@dataclass
class Piece:
    """A slot whose bytes are being staged."""

    stream: Stream
    slot: int
    view: memoryview
    started: StartedPiece
