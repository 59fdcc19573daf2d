"""Between manifests and their bytes: the canonical form, and a careful reading of what a store holds."""

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

# kind -> (module, class). Modules load on first use: one that is not needed costs start-up time.
KINDS = {
    "profile": ("profile", "Profile"),
    "capture": ("capture", "Capture"),
    "source": ("source", "Source"),
    "reproducer": ("reproducer", "Reproducer"),
    "validation": ("validation", "Validation"),
    "replay": ("replay", "Replay"),
    "files": ("files", "Files"),
}
# What the models say, for whoever reads without them.
SCHEMA_VERSIONS = {**dict.fromkeys(KINDS, 1), "source": 2, "reproducer": 2, "validation": 2, "replay": 2}


class ReadsObjects(Protocol):
    """The part of a store that reading a manifest needs."""

    def get(self, digest: Digest, *, verify: bool = True) -> bytes:
        """Return the payload of an object."""
        ...


def model_of(kind: str) -> type[Manifest]:
    """Return the class of a kind of manifest."""
    module, name = KINDS[kind]
    model: type[Manifest] = getattr(import_module(f"kerncap_stages.manifests.{module}"), name)
    return model


def canonical(value: Any) -> bytes:
    """Write JSON in the one form that has a digest."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode() + b"\n"


def dump(manifest: Manifest) -> bytes:
    """Return the bytes to publish. Every key is written, defaults too."""
    return canonical(manifest.model_dump(mode="json"))


def parse(payload: bytes, name: str) -> Manifest:
    """Read a manifest; ``name`` says in messages what it is.

    Raises ManifestUnreadable for anything but the canonical form of a kind and version that we know.
    """
    kind = read_members(payload, name)["kind"]
    manifest, fault = None, ""
    try:
        manifest = model_of(kind).model_validate_json(payload, strict=True)
    except ValueError as error:
        fault = first_fault(error)
    # Not `from error`: what validators raised in it hides from the garbage collector, and all frames stayed.
    if manifest is None:
        raise ManifestUnreadable(f"{name}: malformed {kind} manifest: {fault}", hint=_MAKE_AGAIN)
    if dump(manifest) != payload:
        raise ManifestUnreadable(f"{name}: {kind} manifest is not in canonical form", hint=_MAKE_AGAIN)
    return manifest


def load(store: ReadsObjects, digest: Digest) -> Manifest:
    """Read the manifest of that digest from a store, verified."""
    return parse(store.get(digest), digest.short)


def load_as(store: ReadsObjects, digest: Digest, model: type[_Kind]) -> _Kind:
    """Read a manifest that must be of one kind.

    Raises ArtifactError when it is of another.
    """
    manifest = load(store, digest)
    if not isinstance(manifest, model):
        wanted = model.model_fields["kind"].default
        text, these = (
            f"{digest.short} is a {manifest.kind}, and this needs a {wanted}",
            f"`@{wanted}` is the latest",
        )
        if wanted == "files":
            text, these = (
                f"{digest.short} is a {manifest.kind}, and holds no files",
                "`kc-store put` makes what does",
            )
        raise ArtifactError(text, hint=f"{these}; `kc-store ls --kind {wanted}` lists them")
    return manifest


def read_members(payload: bytes, name: str) -> dict[str, Any]:
    """The members of a manifest whose kind and version we know, unchecked.

    Raises ManifestUnreadable for anything else.
    """
    try:
        content = json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise ManifestUnreadable(f"{name}: not a manifest: {error}", hint=_NOT_A_MANIFEST) from error
    kind = content.get("kind") if isinstance(content, dict) else None
    if not isinstance(kind, str) or kind not in KINDS:
        raise ManifestUnreadable(f"{name}: not a manifest of a kind that we know", hint=_NOT_A_MANIFEST)
    version, known = content.get("schema_version"), SCHEMA_VERSIONS[kind]
    if type(version) is not int or version != known:
        newer = isinstance(version, int) and version > known
        raise ManifestUnreadable(
            f"{name}: {kind} manifest of schema version {version!r}, and this package reads version {known}",
            hint="install the kerncap-stages that made it, or a newer one" if newer else _MAKE_AGAIN,
        )
    members: dict[str, Any] = content
    return members


def first_fault(error: ValueError) -> str:
    """What a model found wrong first, and where."""
    from pydantic import ValidationError

    if not isinstance(error, ValidationError):
        return str(error)
    fault = error.errors(include_url=False, include_input=False)[0]
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    where = ".".join(str(part) for part in fault["loc"])
    return f"{where}: {fault['msg']}{more}" if where else f"{fault['msg']}{more}"
