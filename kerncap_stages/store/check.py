"""Checking a store: every object is what its name says, and everything that is referred to is there."""

from __future__ import annotations

import hashlib
import json
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kerncap_stages import _native
from kerncap_stages.digest import Digest
from kerncap_stages.errors import ManifestUnreadable
from kerncap_stages.store.artifacts import roots
from kerncap_stages.store.artifacts import strays as listing_strays
from kerncap_stages.store.closure import MOST_LIST_BYTES, parse_chunk_list
from kerncap_stages.store.objects import BATCH_OBJECTS, stored_objects
from kerncap_stages.store.transaction import require_files

if TYPE_CHECKING:
    from kerncap_stages.store.closure import Closure
    from kerncap_stages.store.objects import Progress
    from kerncap_stages.store.store import Store


_EMPTY = Digest(hashlib.sha256(b"").hexdigest())


@dataclass(frozen=True)
class Fault:
    """What is wrong with what.

    kind: ``damaged``: not what its name says; ``malformed``: as it was written, but not what it is referred
    to as; ``missing``: referred to and not there; ``unreadable``: the system refused; ``stray``: a file among
    the objects, the names or the list that is none of them.
    artifacts: roots that cannot be used because of it.
    """

    kind: str
    what: str
    message: str
    artifacts: tuple[Digest, ...] = ()


@dataclass(frozen=True)
class CheckReport:
    """What a check read, and what it found."""

    objects: int
    checked_objects: int
    stored_bytes: int
    checked_bytes: int
    faults: tuple[Fault, ...]
    set_aside: tuple[Digest, ...]

    @property
    def ok(self) -> bool:
        """Nothing wrong was found."""
        return not self.faults


def check_store(
    store: Store, *, sample: float | None = None, repair: bool = False, progress: Progress | None = None
) -> CheckReport:
    """Read and hash every object, or a random share (0 to 1) of them, and follow every root's references.

    With ``repair`` damaged objects are set aside, so that making the artifact again mends it.
    """
    sizes, strays = stored_objects(store.root)
    chosen = list(sizes) if sample is None else _some(list(sizes), sample)
    bad = _read_all(store, {digest: sizes[digest] for digest in chosen}, progress)
    set_aside = _set_aside(store, bad) if repair else ()
    with store.folder.shared():
        # What is damaged counts as missing for those who refer to it.
        owners, lost = _follow_roots(store, {Digest(fault.what) for fault in bad})
    faults = [Fault(each.kind, each.what, each.message, owners.get(Digest(each.what), ())) for each in bad]
    known = {fault.what for fault in bad}
    faults += [
        Fault(kind, digest, message, owners[digest])
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


def _some(digests: list[Digest], share: float) -> list[Digest]:
    count = min(len(digests), max(1, round(len(digests) * share)))
    return random.sample(digests, count)


def _read_all(store: Store, sizes: dict[Digest, int], progress: Progress | None) -> list[Fault]:
    """Hash objects on all cores; those that a collector removed meanwhile are no faults."""
    digests, total, done = list(sizes), sum(sizes.values()), 0
    faults = []
    for start in range(0, len(digests), BATCH_OBJECTS):
        batch = digests[start : start + BATCH_OBJECTS]
        with store.folder.shared():
            found = _native.check_objects(store.folder.native, list(batch))
        faults += [Fault(kind, digest, message) for digest, kind, message in found if kind != "missing"]
        done += sum(sizes[digest] for digest in batch)
        if progress:
            progress(done, total)
    return faults


def _set_aside(store: Store, faults: list[Fault]) -> tuple[Digest, ...]:
    """Move damaged objects out of the way, so that the same bytes can be put again."""
    damaged = [fault.what for fault in faults if fault.kind == "damaged"]
    if not damaged:
        return ()
    moved = []
    with store.folder.exclusive():
        (store.root / "damaged").mkdir(exist_ok=True, mode=0o700)
        for digest, kind, _ in _native.check_objects(store.folder.native, damaged):
            if kind == "damaged":
                store.folder.object_path(digest).replace(store.root / "damaged" / digest)
                moved.append(Digest(digest))
    return tuple(moved)


def _follow_roots(
    store: Store, bad: set[Digest]
) -> tuple[dict[Digest, tuple[Digest, ...]], dict[Digest, tuple[str, str]]]:
    """(object, bad or lost: the roots that need it), (lost object: kind of fault, message)."""
    owners: dict[Digest, list[Digest]] = {}
    lost: dict[Digest, tuple[str, str]] = {}
    everything = store.walk(roots(store.root))
    misfits = _misfits(store, everything, bad) | _malformed_files(store, everything)
    if not (bad or misfits or everything.missing or everything.unreadable):
        return {}, {}
    lost.update({digest: ("malformed", message) for digest, message in misfits.items()})
    for root in roots(store.root):
        closure = store.walk([root])
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


def _malformed_files(store: Store, everything: Closure) -> dict[Digest, str]:
    """Lists of files that `kc-store get` would refuse, and why."""
    found = {}
    for digest in everything.manifests():
        payload = store.get(digest)
        try:
            require_files(json.loads(payload), payload)
        except (ValueError, RecursionError, ManifestUnreadable) as error:
            found[digest] = str(error)
    return found


def _misfits(store: Store, everything: Closure, bad: set[Digest]) -> dict[Digest, str]:
    """Chunk lists with a whole chunk of another size than they say, and the reason: reading refuses them."""
    native = store.folder.native
    sizes: dict[Digest, int] = {}
    found = {}
    for kind, digest in everything.followed:
        if kind != "memory":
            continue
        size_bytes, chunk_bytes, chunks = parse_chunk_list(native.read(digest, MOST_LIST_BYTES, True), digest)
        for index, chunk in enumerate(chunks):
            if chunk is None or chunk in bad or chunk in everything.missing:
                continue
            wanted = min(chunk_bytes, size_bytes - index * chunk_bytes)
            if chunk not in sizes:
                _, sizes[chunk] = native.total_sizes([chunk])
            # 0 is also said of what is no frame at all, which is damaged; an empty object is a whole one.
            if sizes[chunk] != wanted and (sizes[chunk] or chunk == _EMPTY):
                found[digest] = f"chunk {chunk} has {sizes[chunk]} bytes, and its list says {wanted}"
                break
    return found
