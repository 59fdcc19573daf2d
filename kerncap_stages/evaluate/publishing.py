"""Publishes verdicts in the user's store, several at once: to bring each to the disk alone would be slow."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kerncap_stages.store.artifacts import choose_time_ns

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kerncap_stages.digest import Digest
    from kerncap_stages.evaluate.contract import VerdictSource
    from kerncap_stages.store import Store

_MAX_PENDING = 64
_MAX_WAIT_S = 0.5


@dataclass(frozen=True)
class _Pending:
    verdict: Digest
    capture: Digest
    keys: tuple[Digest, ...]
    then: Callable[[], None]


class Publisher:
    """Takes verdicts that workers have made, and calls ``then`` for each when it is in the user's store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._pending: dict[int, tuple[VerdictSource, list[_Pending]]] = {}
        self._first_at: float | None = None
        self._remembered: set[Digest] = set()
        self._last_ns: int | None = None

    def add(
        self,
        source: VerdictSource,
        verdict: Digest,
        capture: Digest,
        keys: Sequence[Digest],
        then: Callable[[], None],
    ) -> None:
        """Take a verdict. ``keys``: under which it is found again."""
        _, pending = self._pending.setdefault(id(source), (source, []))
        pending.append(_Pending(verdict, capture, tuple(keys), then))
        self._first_at = self._first_at or time.monotonic()

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits."""
        return not self._pending

    @property
    def is_due(self) -> bool:
        """Whether what waits should be published now."""
        waiting = sum(len(pending) for _, pending in self._pending.values())
        late = self._first_at is not None and time.monotonic() - self._first_at > _MAX_WAIT_S
        return late or waiting >= _MAX_PENDING

    def flush(self) -> None:
        """Publish all verdicts that wait. Raises StoreError if the system fails to write."""
        waiting, self._pending, self._first_at = self._pending, {}, None
        for source, pending in waiting.values():
            made = {each.verdict: (each.capture,) for each in pending}
            source.publish(made, self._store, self._choose_time_ns)
            for each in pending:
                self._remember(each)
                each.then()

    def _choose_time_ns(self, count: int) -> int:
        """Choose the time of the first of some verdicts. The store's list is read once: it may be long."""
        begin = choose_time_ns(self._store.root) if self._last_ns is None else self._last_ns + 1
        first_ns = max(time.time_ns(), begin)
        self._last_ns = first_ns + count
        return first_ns

    def _remember(self, made: _Pending) -> None:
        first, *others = made.keys
        self._store.actions.put(first, made.verdict)
        for key in others:  # the same for all variants: any verdict will do
            if key not in self._remembered:
                self._remembered.add(key)
                if self._store.actions.get(key) is None:
                    self._store.actions.put(key, made.verdict)
