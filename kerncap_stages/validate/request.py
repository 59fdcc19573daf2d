"""Reads a request for a verdict, and makes its key in the action cache.

This module imports neither numpy nor the models, so that a verdict that is already known is returned fast.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from kerncap_stages.digest import ManifestRef
from kerncap_stages.errors import ArtifactError, UsageError
from kerncap_stages.machine.identity import identify_machine
from kerncap_stages.manifests import open_view
from kerncap_stages.project.artifacts import find_source_of
from kerncap_stages.project.origin import NO_ORIGIN, Origin, find_origin
from kerncap_stages.replay.one_gpu import choose_only_gpu
from kerncap_stages.replay.variant_shape import find_variant_shape
from kerncap_stages.store.remembered import find_remembered, make_request_key
from kerncap_stages.validate.compare.bounds import ELEMENT_TYPES, Bounds, make_bounds
from kerncap_stages.validate.precision.file import ReferenceFile, read_reference

if TYPE_CHECKING:
    from pathlib import Path

    from kerncap_stages.digest import Digest
    from kerncap_stages.manifests import View
    from kerncap_stages.manifests.validation import Validation
    from kerncap_stages.project.folder import Project
    from kerncap_stages.replay.variant_shape import VariantShape
    from kerncap_stages.store import Store
    from kerncap_stages.store.remembered import Remembered


_SEED_BYTES = 4  # too many to guess, and short enough to type


def draw_seed() -> int:
    """Draw a seed of fresh values that nobody can know before."""
    return int.from_bytes(os.urandom(_SEED_BYTES))


@dataclass(frozen=True)
class JudgeSettings:
    """How to validate. ``default_type``: element type of all outputs, whatever their arguments' types are."""

    bounds: Bounds = field(default_factory=Bounds)
    default_type: str | None = None
    timeout_s: float = 300.0
    baseline_runs: int = 2
    perturb: bool = True
    variant_runs: int | None = None  # from the captured state; None: as many as fit in a short time
    fresh_values: bool = True  # compare from inputs with fresh values, too
    seed: int | None = None  # of fresh values; None: a random one
    reference: ReferenceFile | None = None  # computes the true outputs

    def describe(self) -> dict[str, Any]:
        """Return what a verdict depends on, as plain JSON. A reference counts by its contents."""
        digest = None if self.reference is None else self.reference.digest
        return {**asdict(replace(self, reference=None)), "reference": digest}

    def choose_seed(self) -> int | None:
        """Choose the seed of fresh values, which no variant can know; None if there are none."""
        if not self.perturb or not self.fresh_values:
            return None
        return draw_seed() if self.seed is None else self.seed


@dataclass(frozen=True)
class Request:
    """A request to judge a variant, or the captured kernel if ``variant`` is None.

    backend, device_index, size_bytes: of the capture. machine: identifies the machine of the replays.
    only_gpu: what hides other GPUs from them; None: all are seen.
    """

    capture: Digest
    backend: str
    device_index: int
    size_bytes: int
    source: Digest | None
    variant: Path | None
    code: bytes | None
    shape: VariantShape | None  # how the variant is launched; None: as captured
    settings: JudgeSettings
    machine: str
    origin: Origin | None = None  # None: not asked for as the variant of a project
    only_gpu: str | None = None

    @property
    def key(self) -> Digest:
        """The key in the action cache of the judgement, whatever the variant's origin is."""
        return make_request_key(
            "validate",
            capture=self.capture,
            variant=None if self.code is None else hashlib.sha256(self.code).hexdigest(),
            source=self.source,
            shape=None if self.shape is None else asdict(self.shape),
            settings=self.settings.describe(),
            machine=self.machine,
        )

    def make_origin_key(self, known: Digest) -> Digest:
        """Make the key of a known verdict of another origin, for the one with this request's origin."""
        return make_request_key("verdict", known=known, origin=asdict(self.origin or NO_ORIGIN))

    def has_origin(self, made: Validation | View) -> bool:
        """Whether a verdict names the origin of this request's variant."""
        files = getattr(made, "built_from", None)
        found = Origin(
            None if made.reproducer is None else ManifestRef(made.reproducer).digest,
            None if files is None else tuple((str(each.path), str(each.digest)) for each in files),
        )
        return found == (self.origin or NO_ORIGIN)

    @property
    def first_key(self) -> Digest:
        """The key of the first verdict on any variant of the capture, which kept the baseline's replays."""
        return make_request_key(
            "first validation",
            capture=self.capture,
            machine=self.machine,
            timeout_s=self.settings.timeout_s,
        )


def find_verdict(store: Store, request: Request) -> Remembered | None:
    """Find the verdict of an earlier run, without the models, and make it the latest; None without one."""
    known = find_remembered(store, request.key, request.has_origin)
    if known is None and (other := store.actions.get(request.key)) is not None:
        known = find_remembered(store, request.make_origin_key(other), request.has_origin)
    return known


def read_request(
    store: Store,
    capture: Digest,
    variant: Path | None,
    settings: JudgeSettings,
    shape: VariantShape | None = None,
    project: Project | None = None,
) -> Request:
    """Read all that the verdict on a variant depends on.

    shape: how the variant is launched; None: as the file beside it says, or as captured.
    project: whose variant is judged, if the verdict shall name it.

    Raises UsageError if the variant does not exist, ArtifactError if ``capture`` is not a capture.
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
        if variant is not None and shape is None:
            shape = find_variant_shape(variant)
        code = None if variant is None else variant.read_bytes()
        return Request(
            capture=capture,
            backend=captured.environment.backend,
            device_index=captured.dispatch.device_index,
            size_bytes=sum(region.size_bytes for region in captured.regions),
            source=find_source_of(store, capture),
            variant=variant,
            code=code,
            shape=shape,
            settings=settings,
            machine=identify_machine(device.architecture),
            origin=None if project is None else find_origin(store, project, capture, variant, code),
            only_gpu=choose_only_gpu(captured),
        )


def make_settings(
    tolerance: float | None,
    rtol: float | None,
    ulp: int | None,
    dtype: str | None,
    *,
    reference: Path | None = None,
    of_captured_kernel: bool = False,
    **further: Any,
) -> JudgeSettings:
    """Make settings from the user's options; ``further``: other members.

    of_captured_kernel: the captured kernel itself is judged, for which a reference needs no bounds.
    Raises UsageError for invalid bounds, an unknown element type, or a reference that cannot be used.
    """
    if dtype is not None and dtype not in ELEMENT_TYPES:
        raise UsageError(f"unknown element type {dtype!r}", hint="give one of " + " ".join(ELEMENT_TYPES))
    bounds = make_bounds(tolerance, rtol, ulp)
    if reference is not None and bounds.is_exact and not of_captured_kernel:
        raise UsageError(
            "--reference judges precision within bounds, and without bounds every byte must be the same",
            hint="give bounds, e.g. --rtol 1e-3, or leave out --reference",
        )
    read = None if reference is None else read_reference(reference)
    return replace(JudgeSettings(bounds, dtype, reference=read), **further)
