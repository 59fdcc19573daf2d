"""Judges variants of one capture, one after the other, as kc-validate does each of them.

What does not depend on the variant stays from one to the next: the capture, what its arguments point to, the
replays of the captured kernel, and, while the seed is the same, the states with fresh values. All of it is in
this process, which runs no code of a variant. Each variant runs in processes of its own, which end with its
verdict (docs/decisions/0074-many-variants.md); on CUDA, in one that other variants have run in
(docs/decisions/0087-a-process-that-is-kept.md), but no failure there counts alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from kerncap_stages.errors import KerncapError, UsageError
from kerncap_stages.manifests import dump, load_as
from kerncap_stages.manifests.capture import Capture
from kerncap_stages.manifests.source import Source
from kerncap_stages.project.unedited import find_unedited
from kerncap_stages.replay.variant import extract_variant_code, read_variant
from kerncap_stages.validate.judge import Judge
from kerncap_stages.validate.perturb.start import Start
from kerncap_stages.validate.replays.baselines import Baselines, find_lasting, make_kept_finder
from kerncap_stages.validate.replays.limits import MAX_BYTES_AT_ONCE
from kerncap_stages.validate.replays.replayer import ProcessReplayer
from kerncap_stages.validate.replays.speculation import NO_NEIGHBOURS, Speculation
from kerncap_stages.validate.request import Request
from kerncap_stages.validate.verdict import explain_clock, make_manifest, store_reference, store_variant

if TYPE_CHECKING:
    from pathlib import Path

    from kerncap_stages.digest import Digest
    from kerncap_stages.manifests.source import Unedited
    from kerncap_stages.manifests.validation import BaselineReplay, Validation
    from kerncap_stages.replay.kept import KeptReplayers
    from kerncap_stages.replay.variant_shape import VariantShape
    from kerncap_stages.store import Store
    from kerncap_stages.validate.judgement import Judgement
    from kerncap_stages.validate.replays.speculation import Neighbours
    from kerncap_stages.validate.request import JudgeSettings


@dataclass(frozen=True)
class Judged:
    """A verdict, and the instructions of the very run that was judged (software GPU).

    own_process: whether no other variant had run in the variant's processes.
    """

    digest: Digest
    verdict: Validation
    instructions: int | None
    own_process: bool


class VariantJudge:
    """Judges variants of one capture."""

    def __init__(
        self,
        store: Store,
        capture_digest: Digest,
        source: Digest | None,
        settings: JudgeSettings,
        machine: str,
        standbys: KeptReplayers,
        *,
        lists: bool,
        fresh: bool,
        in_memory: bool = False,
        neighbours: Neighbours = NO_NEIGHBOURS,
    ) -> None:
        """``lists``: list the verdicts in the store; else they are only stored there.

        in_memory: the store is there, and this process's own. fresh: use no replays of the captured kernel
        that earlier verdicts kept. neighbours: other workers.
        """
        self.capture = load_as(store, capture_digest, Capture)
        self._store = store
        self._digest = capture_digest
        self._source_digest = source
        self._source = None if source is None else load_as(store, source, Source)
        self._settings = settings
        self._machine = machine
        self._lists = lists
        self._standbys = standbys
        self.replayer = ProcessReplayer(
            store, self.capture, settings.timeout_s, standbys, verify_once=in_memory
        )
        self._replays = Speculation(self.replayer, neighbours=neighbours)
        self._find_stored = None if fresh else make_kept_finder(store)
        self._kept: dict[Digest, BaselineReplay] = {}
        self._seed: int | None = None
        self._judge: Judge | None = None
        self._baselines: Baselines | None = None

    @cached_property
    def _captured_code(self) -> bytes:
        return self._store.get_kept(self.capture.code_digest)

    @cached_property
    def _unedited(self) -> Unedited | None:
        return find_unedited(self._store, self._digest)

    def refuse(self, variant: Path) -> None:
        """Raise what kc-validate raises for a file that is no variant of the kernel, before any replay.

        Raises UsageError, Refused or ArtifactError.
        """
        read_variant(variant, self.capture)

    def judge(
        self, variant: Path, shape: VariantShape | None, seed: int | None, *, alone: bool = False
    ) -> Judged:
        """Judge a variant that is not refused, and store the verdict. ``alone``: in processes of its own.

        Raises Refused if it cannot be replayed from this capture; DeviceError if this machine, ArtifactError
        if the store does not let it.
        """
        code = variant.read_bytes()
        self._begin(code, alone=alone)
        judge, baselines = self._prepare(seed)
        judgement = self._judge_surely(judge, variant, code, shape)
        if variant.read_bytes() != code:
            raise UsageError(f"{variant} changed while it was validated")
        judgement = judgement.note(*explain_clock(self._store, self.capture, code))
        request = Request(
            capture=self._digest,
            backend=self.capture.environment.backend,
            device_index=self.capture.dispatch.device_index,
            size_bytes=0,
            source=self._source_digest,
            variant=variant,
            code=code,
            shape=shape,
            settings=self._settings,
            machine=self._machine,
        )
        with self._store.begin_transaction() as transaction:
            described = store_variant(self.capture, code, transaction)
            store_reference(self._settings, transaction)
            manifest = make_manifest(self.capture, request, described, self._unedited, judgement, baselines)
            payload = dump(manifest)
            if self._lists:
                digest = transaction.publish(payload, "validation", [self._digest])
            else:
                digest = transaction.put_bytes(payload)
                transaction.publish_objects()
        is_own = not self._standbys.is_doubtful
        return Judged(digest, manifest, self.replayer.variant_instructions, is_own)

    def close(self) -> None:
        """Wait for what still runs."""
        self._replays.__exit__(None, None, None)

    def _prepare(self, seed: int | None) -> tuple[Judge, Baselines]:
        """Return the judge for a seed: the one of the last variant, if that had the same."""
        if self._judge is None or self._baselines is None or seed != self._seed:
            settings = replace(self._settings, seed=seed) if seed is not None else self._settings
            scope = {
                "capture": self._digest,
                "machine": self._machine,
                "timeout_s": settings.timeout_s,
            }
            self._baselines = Baselines(self._store, self.capture, self._replays, scope, self._find_kept)
            self._judge = Judge(
                self._store, self.capture, self._source, settings, self._baselines, self._replays
            )
            self._seed = seed
            self.replayer.begin_variant(None)
            self.replayer.run(Start(self._store, self.capture), None)  # time limits are multiples of its time
            self._judge.find_fresh_values()
        self._baselines.forget_passing()  # the last variant's
        return self._judge, self._baselines

    def _begin(self, code: bytes, *, alone: bool) -> None:
        codes = (extract_variant_code(code, self.capture), self._captured_code)
        self._standbys.begin_variant(*codes, alone=alone)

    def _judge_surely(
        self, judge: Judge, variant: Path, code: bytes, shape: VariantShape | None
    ) -> Judgement:
        """Judge once more what failed in a process that other variants had run in: one may have ruined it."""
        try:
            judgement = self._judge_once(judge, variant, shape)
            if judgement.passed or not self._standbys.is_doubtful:
                return judgement
        except KerncapError:
            if not self._standbys.is_doubtful:
                raise
        self._standbys.end_process()
        if self.capture.size_bytes > MAX_BYTES_AT_ONCE:
            self._standbys.settle()
        self._begin(code, alone=False)
        if self._baselines is not None:
            self._baselines.forget_passing()
        return self._judge_once(judge, variant, shape)

    def _judge_once(self, judge: Judge, variant: Path, shape: VariantShape | None) -> Judgement:
        self.replayer.begin_variant(shape)
        self._start_standbys()
        try:
            return judge.judge(variant)
        finally:
            self._replays.settle()
            if self._baselines is not None:
                self._kept.update({each.key: each for each in find_lasting(self._baselines.kept)})

    def _find_kept(self, key: Digest) -> BaselineReplay | None:
        if key not in self._kept and self._find_stored is not None:
            found = self._find_stored(key)
            if found is not None:
                self._kept[key] = found
        return self._kept.get(key)

    def _start_standbys(self) -> None:
        """Start replayers for what runs at once, as kc-validate does."""
        is_double = self._settings.perturb and self.capture.size_bytes <= MAX_BYTES_AT_ONCE
        self._standbys.start(2 if is_double else 1)
