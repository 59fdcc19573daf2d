"""The code of a captured kernel, as its capture holds it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.store import Store


@dataclass(frozen=True)
class CapturedCode:
    """``ptx``: what the driver made the code object of, where the program handed it PTX."""

    code_object: bytes
    ptx: tuple[bytes, ...] = ()

    @classmethod
    def of(cls, store: Store, capture: Capture) -> Self:
        """Read it from the store."""
        code = capture.kernel.code_object
        return cls(store.get(code.payload.digest), tuple(store.get(each.digest) for each in code.ptx))
