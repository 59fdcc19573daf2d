"""The code of a captured kernel, from its capture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.store import Store


@dataclass(frozen=True)
class CapturedCode:
    """A code object. ``ptx``: from which the driver compiled it, if the program passed PTX to the driver."""

    code_object: bytes
    ptx: tuple[bytes, ...] = ()

    @classmethod
    def read(cls, store: Store, capture: Capture) -> Self:
        """Read the code of a capture from the store."""
        code = capture.kernel.code_object
        return cls(store.get(code.payload.digest), tuple(store.get(each.digest) for each in code.ptx))
