"""Times variants that are right: by instructions on the software GPU, by the device's clock elsewhere."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.errors import DeviceError
from kerncap_stages.machine.temporary import TemporaryFolder
from kerncap_stages.manifests.evaluation import MeasuredTime
from kerncap_stages.manifests.replay import ReplayOutcome
from kerncap_stages.manifests.timing import TimeSource
from kerncap_stages.replay.floor import find_impossible
from kerncap_stages.replay.runner import ReplayRequest, replay_capture
from kerncap_stages.replay.timing import compare, summarise
from kerncap_stages.replay.variant import extract_variant_code
from kerncap_stages.validate.replays.limits import MAX_BYTES_AT_ONCE
from kerncap_stages.validate.timed.runs import count_changed_bytes, judge_timed_runs

if TYPE_CHECKING:
    from kerncap_stages.digest import Digest
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.replay.kept import KeptReplayers
    from kerncap_stages.replay.variant_shape import VariantShape
    from kerncap_stages.store import Store
    from kerncap_stages.validate.request import JudgeSettings

_WARMUP = 3


def replay_captured(store: Store, capture: Capture, timeout_s: float) -> None:
    """Replay the captured kernel by itself.

    Raises DeviceError if this machine, ArtifactError if the store does not let it.
    """
    request = ReplayRequest(compare=False, timed=False, quiet=True, timeout_s=timeout_s)
    result = replay_capture(store, capture, request)
    if result.outcome is not ReplayOutcome.COMPLETED:
        raise DeviceError(
            f"the captured kernel does not replay: {result.explanation}",
            hint="`kc-replay` of the capture says more; `kc-show --about` lists GPUs",
        )


class Timer:
    """Times variants of one capture. Nothing else may run on the device meanwhile."""

    def __init__(
        self,
        store: Store,
        digest: Digest,
        capture: Capture,
        settings: JudgeSettings,
        runs: int,
        replayers: KeptReplayers,
    ) -> None:
        """``runs``: of both kernels in turn, on a device. replayers: for timed replays."""
        self._store = store
        self._digest = digest
        self._capture = capture
        self._settings = settings
        self._runs = runs
        self._replayers = replayers
        self._captured_code = store.get_kept(capture.code_digest)
        self._captured_instructions: int | None = None

    @property
    def had_own_process(self) -> bool:
        """Whether no other variant had run in the process that timed the last one."""
        return not self._replayers.is_doubtful

    def time(
        self,
        variant: Path,
        shape: VariantShape | None,
        instructions: int | None,
        *,
        alone: bool = False,
    ) -> tuple[MeasuredTime | None, tuple[str, ...]]:
        """Time a variant that is right; also returns why it is wrong after all, if a timed run was.

        instructions: of the variant, as counted in the run that was judged. alone: in a process of its own.
        """
        if self._capture.device.software:
            counted = instructions or self._count(variant, shape)
            return self._compare_instructions(counted), ()
        codes = (extract_variant_code(variant.read_bytes(), self._capture), self._captured_code)
        for _ in range(2):
            self._replayers.begin_variant(*codes, alone=alone)
            self._replayers.start(1)
            found = self._compare_times(variant, shape)
            if not found[1] or not self._replayers.is_doubtful:
                break
            self._replayers.end_process()  # an earlier variant may have ruined it
            self._settle()
        self._settle()
        return found

    def _settle(self) -> None:
        """Wait until a large replay has given its memory back: the next one needs it."""
        if self._capture.size_bytes > MAX_BYTES_AT_ONCE:
            self._replayers.settle()

    def _count(self, variant: Path | None, shape: VariantShape | None) -> int | None:
        request = ReplayRequest(
            variant=variant,
            variant_shape=shape,
            compare=False,
            timed=False,
            quiet=True,
            timeout_s=self._settings.timeout_s,
        )
        result = replay_capture(self._store, self._capture, request)
        return result.baseline_instructions if variant is None else result.variant_instructions

    def _compare_instructions(self, counted: int | None) -> MeasuredTime | None:
        if self._captured_instructions is None:
            self._captured_instructions = self._count(None, None)
        captured = self._captured_instructions
        if not counted or not captured:
            return None
        return MeasuredTime(
            ratio=counted / captured, variant_instructions=counted, captured_instructions=captured
        )

    def _compare_times(
        self, variant: Path, shape: VariantShape | None
    ) -> tuple[MeasuredTime | None, tuple[str, ...]]:
        request = ReplayRequest(
            variant=variant,
            variant_shape=shape,
            iterations=self._runs,
            warmup=_WARMUP,
            compare=self._capture.has_post,
            interleave=True,
            timeout_s=self._settings.timeout_s,
        )
        with TemporaryFolder("states") as name:
            request = replace(request, states_folder=Path(name))
            result = replay_capture(self._store, self._capture, request, self._replayers)
            if result.outcome is not ReplayOutcome.COMPLETED:
                ending = f"{result.outcome.value.replace('_', ' ')}: {result.explanation}"
                return None, (f"while it was timed the variant {ending}",)
            if any(result.variant_states):
                wrong = judge_timed_runs(
                    self._store, self._digest, self._capture, variant, result, Path(name), self._settings
                )
                if wrong is not None:
                    found = f"wrong in {wrong.wrong} of {wrong.runs} timed runs"
                    if not wrong.wrong:
                        found = f"{wrong.unknown} of {wrong.runs} timed runs could not be judged"
                    return None, (found, *wrong.reasons)
            runs = (self._store, self._digest, self._capture, variant, result, Path(name))
            floor, impossible = find_impossible(self._capture, result, lambda: count_changed_bytes(*runs))
            if impossible is not None:
                return None, (impossible,)
        before = summarise(result.baseline_ns, TimeSource.DEVICE)
        after = summarise(result.variant_ns, TimeSource.DEVICE)
        if before is None or after is None:
            return None, ()
        ratio = compare(before, after).ratio
        device = " ".join(filter(None, (result.device_name, result.device_isa))) or None
        time = MeasuredTime(
            ratio=ratio,
            variant_ns=after.median_ns,
            captured_ns=before.median_ns,
            least_ns=None if floor is None else floor.least_ns,
            device=device,
        )
        return time, ()
