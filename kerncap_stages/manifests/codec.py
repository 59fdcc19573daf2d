"""Converts manifests to their canonical bytes and back. Reading checks everything: a store is not trusted."""

from __future__ import annotations

import json
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from kerncap_stages.digest import Digest
from kerncap_stages.errors import ArtifactError, ManifestUnreadable

if TYPE_CHECKING:
    from kerncap_stages.manifests.base import Manifest

_Kind = TypeVar("_Kind", bound="Manifest")
_MAKE_AGAIN = "make the artifact again with the stage that made it; `kc-store check` looks for damage"
_NOT_A_MANIFEST = "kc-show lists the artifacts that a stage can take"

# kind -> (module, class). A module is imported on first use, because importing it takes time at start-up.
KINDS = {
    "profile": ("profile", "Profile"),
    "capture": ("capture", "Capture"),
    "source": ("source", "Source"),
    "reproducer": ("reproducer", "Reproducer"),
    "validation": ("validation", "Validation"),
    "evaluation": ("evaluation", "Evaluation"),
    "replay": ("replay", "Replay"),
    "files": ("files", "Files"),
}
# The same as in the models, for readers that do not import the models.
SCHEMA_VERSIONS = {
    "capture": 2,
    "evaluation": 1,
    "files": 1,
    "profile": 2,
    "replay": 2,
    "reproducer": 2,
    "source": 3,
    "validation": 2,
}


class ReadsObjects(Protocol):
    """The method of a store that reading a manifest needs."""

    def get(self, digest: Digest, *, verify: bool = True) -> bytes:
        """Return the payload of an object."""
        ...


def find_model(kind: str) -> type[Manifest]:
    """Return the model of a kind of manifest."""
    module, name = KINDS[kind]
    model: type[Manifest] = getattr(import_module(f"kerncap_stages.manifests.{module}"), name)
    return model


def to_canonical(value: Any) -> bytes:
    """Convert to JSON in canonical form: equal values give equal bytes, and so equal digests."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode() + b"\n"


def dump(manifest: Manifest) -> bytes:
    """Return the bytes to publish. Keys with their default value are written, too, but for ``added``."""
    return to_canonical(manifest.model_dump(mode="json", exclude=manifest.find_absent()))


def parse(payload: bytes, name: str) -> Manifest:
    """Parse a manifest; error messages call it ``name``.

    Raises ManifestUnreadable unless it is in canonical form and of a kind and version that this package
    reads.
    """
    kind = read_members(payload, name)["kind"]
    manifest, fault = None, ""
    try:
        manifest = find_model(kind).model_validate_json(payload, strict=True)
    except ValueError as error:
        fault = describe_first_fault(error)
    # Not `from error`: the garbage collector does not see errors of validators inside it, so all frames and
    # their locals would stay in memory.
    if manifest is None:
        raise ManifestUnreadable(f"{name}: malformed {kind} manifest: {fault}", hint=_MAKE_AGAIN)
    if dump(manifest) != payload:
        raise ManifestUnreadable(f"{name}: {kind} manifest is not in canonical form", hint=_MAKE_AGAIN)
    return manifest


def load(store: ReadsObjects, digest: Digest) -> Manifest:
    """Read the manifest with this digest from a store, and verify it."""
    return parse(store.get(digest), digest.short)


def load_as(store: ReadsObjects, digest: Digest, model: type[_Kind]) -> _Kind:
    """Read a manifest that must be of one kind.

    Raises ArtifactError if it is of another kind.
    """
    manifest = load(store, digest)
    if not isinstance(manifest, model):
        wanted = model.model_fields["kind"].default
        text, these = (
            f"{digest.short} is a {manifest.kind}, but a {wanted} is needed",
            f"`@{wanted}` is the latest",
        )
        if wanted == "files":
            text, these = (
                f"{digest.short} is a {manifest.kind} and holds no files",
                "`kc-store put` stores files",
            )
        raise ArtifactError(text, hint=f"{these}; `kc-store ls --kind {wanted}` lists them")
    return manifest


def read_members(payload: bytes, name: str) -> dict[str, Any]:
    """Return the members of a manifest; only its kind and version are checked.

    Raises ManifestUnreadable unless this package reads its kind and version.
    """
    try:
        content = json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise ManifestUnreadable(f"{name}: not a manifest: {error}", hint=_NOT_A_MANIFEST) from error
    kind = content.get("kind") if isinstance(content, dict) else None
    if not isinstance(kind, str) or kind not in KINDS:
        raise ManifestUnreadable(f"{name}: not a manifest of a known kind", hint=_NOT_A_MANIFEST)
    version, known = content.get("schema_version"), SCHEMA_VERSIONS[kind]
    if type(version) is not int or version != known:
        newer = isinstance(version, int) and version > known
        raise ManifestUnreadable(
            f"{name}: {kind} manifest of schema version {version!r}, but this package reads version {known}",
            hint="install the kerncap-stages that made it, or a newer one" if newer else _MAKE_AGAIN,
        )
    members: dict[str, Any] = content
    return members


def describe_first_fault(error: ValueError) -> str:
    """Describe the first fault that a model found, and where it is."""
    # Views are read without pydantic.
    from pydantic import ValidationError

    if not isinstance(error, ValidationError):
        return str(error)
    fault = error.errors(include_url=False, include_input=False)[0]
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    where = ".".join(str(part) for part in fault["loc"])
    return f"{where}: {fault['msg']}{more}" if where else f"{fault['msg']}{more}"
