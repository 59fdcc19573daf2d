"""A request for a verdict, and its answer: remembered, or judged now.

Nothing here imports numpy or the models, so that a remembered answer comes at once.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from kerncap_stages.errors import ArtifactError, UsageError
from kerncap_stages.machine.identity import identify_machine
from kerncap_stages.manifests import open_view
from kerncap_stages.project.artifacts import find_source_of
from kerncap_stages.store.remembered import make_request_key
from kerncap_stages.validate.compare.bounds import ELEMENT_TYPES, Bounds, checked_bounds

if TYPE_CHECKING:
    from pathlib import Path

    from kerncap_stages.digest import Digest
    from kerncap_stages.store import Store


@dataclass(frozen=True)
class Settings:
    """How to compare. ``default_type``: of all outputs, whatever the kernel's arguments say of them."""

    bounds: Bounds = field(default_factory=Bounds)
    default_type: str | None = None
    timeout_s: float = 300.0
    baseline_runs: int = 2
    perturb: bool = True
    variant_runs: int | None = None  # from the captured state; none: as many as take next to no time


@dataclass(frozen=True)
class Request:
    """A variant, or without one the captured kernel, to be judged. ``machine``: where it is replayed.

    backend, device_index, size_bytes: of the capture.
    """

    capture: Digest
    backend: str
    device_index: int
    size_bytes: int
    source: Digest | None
    variant: Path | None
    code: bytes | None
    settings: Settings
    machine: str

    @property
    def key(self) -> Digest:
        """Its name in the action cache."""
        return make_request_key(
            "validate",
            capture=self.capture,
            variant=None if self.code is None else hashlib.sha256(self.code).hexdigest(),
            source=self.source,
            settings=asdict(self.settings),
            machine=self.machine,
        )

    @property
    def first_key(self) -> Digest:
        """Of the first verdict on a variant of the capture: later ones find the captured kernel's replays."""
        return make_request_key(
            "first validation",
            capture=self.capture,
            machine=self.machine,
            timeout_s=self.settings.timeout_s,
        )


def read_request(store: Store, capture: Digest, variant: Path | None, settings: Settings) -> Request:
    """Read what the verdict on a variant depends on.

    Raises UsageError if the variant is not there, ArtifactError if the other is no capture.
    """
    if variant is not None and not variant.is_file():
        raise UsageError(f"no such code object: {variant}", hint="make it with `make recompile`")
    with open_view(store, capture) as captured:
        if captured.kind != "capture":
            raise ArtifactError(
                f"{capture.short} is a {captured.kind}, but a capture is needed",
                hint="`@capture` is the latest; `kc-store ls --kind capture` lists them",
            )
        device = captured.environment.devices[captured.dispatch.device_index]
        return Request(
            capture=capture,
            backend=captured.environment.backend,
            device_index=captured.dispatch.device_index,
            size_bytes=sum(region.size_bytes for region in captured.regions),
            source=find_source_of(store, capture),
            variant=variant,
            code=None if variant is None else variant.read_bytes(),
            settings=settings,
            machine=identify_machine(device.architecture),
        )


def checked_settings(
    tolerance: float | None, rtol: float | None, ulp: int | None, dtype: str | None, **further: Any
) -> Settings:
    """Make settings of what users give; ``further``: other members.

    Raises UsageError for bounds that cannot hold, or an unknown element type.
    """
    if dtype is not None and dtype not in ELEMENT_TYPES:
        raise UsageError(f"unknown element type {dtype!r}", hint="one of " + " ".join(ELEMENT_TYPES))
    return replace(Settings(checked_bounds(tolerance, rtol, ulp), dtype), **further)


# Replays at the same time need memory for each; what is larger is replayed one after the other.
MAX_BYTES_AT_ONCE = 2 << 30
