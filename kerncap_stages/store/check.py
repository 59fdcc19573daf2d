"""Checks a store: every object matches its digest, and every object that another refers to exists."""

from __future__ import annotations

import hashlib
import json
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kerncap_stages import _native
from kerncap_stages.digest import Digest
from kerncap_stages.errors import ManifestUnreadable
from kerncap_stages.store.artifacts import find_roots
from kerncap_stages.store.artifacts import find_strays as listing_strays
from kerncap_stages.store.closure import MAX_LIST_BYTES, parse_chunk_list
from kerncap_stages.store.objects import BATCH_OBJECTS, list_stored_objects
from kerncap_stages.store.transaction import require_files

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kerncap_stages.store.closure import Closure
    from kerncap_stages.store.objects import Progress
    from kerncap_stages.store.store import Store


_EMPTY = Digest(hashlib.sha256(b"").hexdigest())


@dataclass(frozen=True)
class Fault:
    """A fault of an object or a file in the store.

    kind: ``damaged``: it does not match its digest; ``malformed``: it matches its digest, but is not what a
    reference says it is; ``missing``: an object refers to it, but it does not exist; ``unreadable``: the
    system failed to read it; ``stray``: a file in the folders of objects, names or artifacts that does not
    belong there.
    artifacts: roots that cannot be used because of the fault.
    """

    kind: str
    what: str
    message: str
    artifacts: tuple[Digest, ...] = ()


@dataclass(frozen=True)
class CheckReport:
    """How much a check read, and the faults that it found."""

    objects: int
    checked_objects: int
    stored_bytes: int
    checked_bytes: int
    faults: tuple[Fault, ...]
    set_aside: tuple[Digest, ...]

    @property
    def ok(self) -> bool:
        """Whether no fault was found."""
        return not self.faults


def check_store(
    store: Store, *, sample: float | None = None, repair: bool = False, progress: Progress | None = None
) -> CheckReport:
    """Read and hash all objects, or a random share (0 to 1) of them, and follow the references of all roots.

    With ``repair``, damaged objects are set aside, so that making the artifact again stores them anew.
    """
    sizes, strays = list_stored_objects(store.root)
    chosen = list(sizes) if sample is None else _choose_sample(list(sizes), sample)
    bad = _read_all(store, {digest: sizes[digest] for digest in chosen}, progress)
    set_aside = _set_aside(store, bad) if repair else ()
    with store.folder.lock_shared():
        # A damaged object counts as missing for the artifacts that refer to it.
        owners, lost = _follow_roots(store, {Digest(fault.what) for fault in bad})
    faults = [Fault(each.kind, each.what, each.message, owners.get(Digest(each.what), ())) for each in bad]
    known = {fault.what for fault in bad}
    faults += [
        Fault(kind, digest, message, owners.get(digest, ()))
        for digest, (kind, message) in lost.items()
        if digest not in known
    ]
    faults += [Fault("stray", f"objects/{path}", "is not an object") for path in strays]
    faults += [Fault("stray", path, reason) for path, reason in listing_strays(store.root).items()]
    return CheckReport(
        objects=len(sizes),
        checked_objects=len(chosen),
        stored_bytes=sum(sizes.values()),
        checked_bytes=sum(sizes[digest] for digest in chosen),
        faults=tuple(faults),
        set_aside=set_aside,
    )


def _choose_sample(digests: list[Digest], share: float) -> list[Digest]:
    count = min(len(digests), max(1, round(len(digests) * share)))
    return random.sample(digests, count)


def _read_all(store: Store, sizes: dict[Digest, int], progress: Progress | None) -> list[Fault]:
    """Hash objects on all cores; objects that a collector removed meanwhile are not faults."""
    digests, total, done = list(sizes), sum(sizes.values()), 0
    faults = []
    for start in range(0, len(digests), BATCH_OBJECTS):
        batch = digests[start : start + BATCH_OBJECTS]
        with store.folder.lock_shared():
            found = _native.check_objects(store.folder.native, list(batch))
        faults += [Fault(kind, digest, message) for digest, kind, message in found if kind != "missing"]
        done += sum(sizes[digest] for digest in batch)
        if progress:
            progress(done, total)
    return faults


def _set_aside(store: Store, faults: list[Fault]) -> tuple[Digest, ...]:
    """Move damaged objects to ``damaged/``, so that their payloads can be stored again."""
    damaged = [Digest(fault.what) for fault in faults if fault.kind == "damaged"]
    return set_damaged_aside(store, damaged) if damaged else ()


def set_damaged_aside(store: Store, suspected: Sequence[Digest]) -> tuple[Digest, ...]:
    """Move those of the objects to ``damaged/`` that are damaged, and return them.

    Raises StoreError if others use the store for too long.
    """
    moved = []
    with store.folder.lock_exclusively():
        (store.root / "damaged").mkdir(exist_ok=True, mode=0o700)
        for digest, kind, _ in _native.check_objects(store.folder.native, [*suspected]):
            if kind == "damaged":
                store.folder.find_object_path(digest).replace(store.root / "damaged" / digest)
                moved.append(Digest(digest))
    return tuple(moved)


def _follow_roots(
    store: Store, bad: set[Digest]
) -> tuple[dict[Digest, tuple[Digest, ...]], dict[Digest, tuple[str, str]]]:
    """Return the roots that need each faulty object, and (kind of fault, message) of missing objects."""
    owners: dict[Digest, list[Digest]] = {}
    lost: dict[Digest, tuple[str, str]] = {}
    everything = store.walk(find_roots(store.root))
    misfits = _find_misfits(store, everything, bad) | _find_malformed_files(store, everything)
    if not (bad or misfits or everything.missing or everything.unreadable):
        return {}, {}
    lost.update({digest: ("malformed", message) for digest, message in misfits.items()})
    for root in find_roots(store.root):
        # A memory that the root is whole without does not count if it is faulty.
        closure = store.walk([root], damaged=bad | misfits.keys())
        lost.update({digest: ("missing", message) for digest, message in closure.missing.items()})
        faulty = _native.check_objects(store.folder.native, list(closure.unreadable))
        damaged = {digest for digest, *_ in faulty}
        for digest, message in closure.unreadable.items():
            lost[digest] = ("damaged" if digest in damaged else "malformed", message)
        misfitting = misfits.keys() & {digest for _, digest in closure.followed}
        broken = closure.kinds.keys() & bad | misfitting
        for digest in closure.missing.keys() | closure.unreadable.keys() | broken:
            owners.setdefault(digest, []).append(root)
    return {digest: tuple(sorted(needing)) for digest, needing in owners.items()}, lost


def _find_malformed_files(store: Store, everything: Closure) -> dict[Digest, str]:
    """Return the files manifests that `kc-store get` would refuse, and why."""
    found = {}
    for digest in everything.manifests:
        payload = store.get(digest)
        try:
            require_files(json.loads(payload), payload)
        except (ValueError, RecursionError, ManifestUnreadable) as error:
            found[digest] = str(error)
    return found


def _find_misfits(store: Store, everything: Closure, bad: set[Digest]) -> dict[Digest, str]:
    """Return chunk lists that a reader would refuse because a chunk has another size, with the message."""
    native = store.folder.native
    sizes: dict[Digest, int] = {}
    found = {}
    for kind, digest in everything.followed:
        if kind != "memory":
            continue
        size_bytes, chunk_bytes, chunks = parse_chunk_list(native.read(digest, MAX_LIST_BYTES, True), digest)
        for index, chunk in enumerate(chunks):
            if chunk is None or chunk in bad or chunk in everything.missing:
                continue
            wanted = min(chunk_bytes, size_bytes - index * chunk_bytes)
            if chunk not in sizes:
                _, sizes[chunk] = native.total_sizes([chunk])
            # A size of 0 means that the object is damaged, unless it is the empty object.
            if sizes[chunk] != wanted and (sizes[chunk] or chunk == _EMPTY):
                found[digest] = f"chunk {chunk} has {sizes[chunk]} bytes, but its list says {wanted}"
                break
    return found
