"""Connections of the service: one that asks for nothing is closed, so that it shuts nobody out.

uvicorn has a time limit behind an answer, but none before the first request, and its limit of connections
counts those that ask for nothing. Anybody who reaches the port could use up all of them, without the token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    import asyncio

REQUEST_S = 10.0  # from a connection's begin, or from the first byte of a further request, to its last header
MAX_CONNECTIONS = 500  # with more, the one that has been idle longest is closed


class BoundedProtocol(H11Protocol):
    """Speaks HTTP on one connection."""

    _idle_since = 0.0
    _limit: asyncio.TimerHandle | None = None

    @property
    def is_idle(self) -> bool:
        """Whether no request is under way: its headers have not come, or it was answered."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin; make room by ending another one."""
        super().connection_made(transport)
        self._idle_since = self.loop.time()
        self._limit = self.loop.call_later(REQUEST_S, self._end_if_idle)
        if len(self.connections) > MAX_CONNECTIONS:
            others = [
                each
                for each in self.connections
                if isinstance(each, BoundedProtocol)
                and each is not self
                and each.is_idle
                and not each.transport.is_closing()  # another new one has ended it
            ]
            if others:
                min(others, key=lambda each: each._idle_since).transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._forget_limit()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read what came."""
        super().data_received(data)
        if not self.is_idle:
            self._forget_limit()
        elif self._limit is None:  # a part of a further request
            self._limit = self.loop.call_later(REQUEST_S, self._end_if_idle)

    def on_response_complete(self) -> None:
        """Wait for a further request."""
        self._idle_since = self.loop.time()
        super().on_response_complete()

    def _forget_limit(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None

    def _end_if_idle(self) -> None:
        if self.is_idle:
            self.transport.abort()
