"""What variants are evaluated for: the captures of one kernel, and the project that they are from."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kerncap_stages.digest import Digest, ManifestRef
from kerncap_stages.errors import UsageError
from kerncap_stages.manifests import load_as
from kerncap_stages.manifests.capture import Capture
from kerncap_stages.manifests.evaluation import EvaluatedCase
from kerncap_stages.manifests.source import Source
from kerncap_stages.project.cases import read_cases
from kerncap_stages.validate.arguments import find_pointers
from kerncap_stages.validate.precision.measure import Precision
from kerncap_stages.validate.replays.outputs import find_golden
from kerncap_stages.validate.request import read_request

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kerncap_stages.store import Store
    from kerncap_stages.validate.request import JudgeSettings, Request


@dataclass(frozen=True)
class Subject:
    """The captures in a store, one or several of the same kernel.

    held_out: how many of them, at the end, are not in the project. project: its folder, in which sources
    are built; None: only code objects can be judged.
    """

    store: Store
    captures: tuple[Digest, ...]
    project: Path | None = None
    held_out: int = 0


@dataclass(frozen=True)
class OpenedSubject:
    """A subject whose captures were read. ``requests``: one for each, still without a variant."""

    subject: Subject
    captures: tuple[Capture, ...]
    requests: tuple[Request, ...]
    cases: tuple[EvaluatedCase, ...]
    roots: tuple[Digest, ...] = field(default=())

    @property
    def first(self) -> Capture:
        """The first capture: all are of one kernel and one device."""
        return self.captures[0]

    @property
    def machine(self) -> str:
        """Stands for the device and all that runs a replay on it."""
        return self.requests[0].machine


def open_subject(subject: Subject, settings: JudgeSettings) -> OpenedSubject:
    """Read the captures.

    Raises UsageError unless all are of one kernel and one kind of GPU, ArtifactError for what is no capture;
    UsageError or Refused for a reference that is no use.
    """
    store = subject.store
    requests = tuple(read_request(store, each, None, settings) for each in subject.captures)
    captures = tuple(load_as(store, each, Capture) for each in subject.captures)
    names = Counter(each.kernel.demangled_name for each in captures)
    if len(names) > 1:
        raise UsageError(
            f"captures of {len(names)} kernels: {', '.join(sorted(names))}",
            hint="evaluate variants of one kernel at a time: name its capture",
        )
    if (
        len({(each.environment.backend, each.device.architecture, each.device.software) for each in captures})
        > 1
    ):
        raise UsageError(
            "the captures are from several kinds of GPUs", hint="evaluate variants for one kind at a time"
        )
    for request, capture in zip(requests, captures, strict=True):
        _check_reference(store, capture, request.source, settings)
    read = read_cases([(store, each) for each in subject.captures])
    inside = len(captures) - subject.held_out
    cases = tuple(
        EvaluatedCase(
            capture=ManifestRef.to(digest),
            launch=case.launch,
            weight=None if case.time_ns is None else float(case.time_ns),
            calls=case.calls,
            held_out=number >= inside,
        )
        for number, (digest, case) in enumerate(zip(subject.captures, read, strict=True))
    )
    return OpenedSubject(subject, captures, requests, cases, _find_roots(store, requests))


def _check_reference(store: Store, capture: Capture, source: Digest | None, settings: JudgeSettings) -> None:
    """Compare the reference, if there is one, with the captured kernel's outputs, for the captured inputs."""
    golden = find_golden(capture)
    if settings.reference is not None and golden is not None:
        located = None if source is None else load_as(store, source, Source)
        pointers = find_pointers(store, capture, located)
        Precision(store, capture, located, pointers, settings).check(golden)


def _find_roots(store: Store, requests: Sequence[Request]) -> tuple[Digest, ...]:
    """Find the artifacts that verdicts are made from: captures, their sources, and projects made of these."""
    roots = [request.capture for request in requests]
    roots += [request.source for request in requests if request.source is not None]
    known = set(roots)
    roots += [entry.digest for entry in store.list_artifacts("reproducer") if known & set(entry.parents)]
    return tuple(dict.fromkeys(roots))
