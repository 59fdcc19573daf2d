"""Reads the report of the native replayer."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kerncap_stages.errors import ArtifactError, DeviceError, KerncapError, Refused, UsageError
from kerncap_stages.manifests.replay import ReplayOutcome

if TYPE_CHECKING:
    from pathlib import Path

    from kerncap_stages.manifests.timing import Work

# If the replayer fails before it runs a kernel, that is an error to raise, not a result of the replay.
_DAMAGED = "`kc-store check` names damaged and missing objects: import the capture again, or capture again"
_SYSTEM = "check the permissions and the free space there, then run it again"
_FILE_LIMIT = "raise the limit on the size of files (`ulimit -f unlimited`), and run it again"
_DEVICE = "run it again: each start gets other addresses; `kc-show --about` lists GPUs and back ends"
_ELSEWHERE = (
    "replay it on a machine with an NVIDIA GPU like the captured one: `kc-store export` writes it to a file"
)
_VARIANT_REFUSED = "the variant cannot be loaded: "
_REBUILD = "the file is damaged, or not made for this GPU: rebuild it, and run it again"
_BUILD_FOR_THIS = "build it for this GPU and its driver: `kc-show --about` names both"
_CAPTURED_REFUSED = "the captured code object cannot be loaded: "
_VERSION_OF_CAPTURE = (
    "install the version of ROCm or of the CUDA driver that the program was captured with: `kc-show` of the "
    "capture names it"
)
_NEWER_ROCM = "install ROCm 6.4 or later, or replay it on a machine that has it: `kc-store export`"
_RAISED: dict[str, tuple[type[KerncapError], str]] = {
    "invalid_argument": (UsageError, "`kc-replay --help` shows the arguments"),
    "not_found": (ArtifactError, _DAMAGED),
    "damaged": (ArtifactError, _DAMAGED),
    "malformed": (ArtifactError, "it cannot be repaired: capture again with this version"),
    "no_space": (DeviceError, _SYSTEM),
    "file_limit": (DeviceError, _FILE_LIMIT),
    "permission": (DeviceError, _SYSTEM),
    "io": (DeviceError, _SYSTEM),
    "timeout": (DeviceError, _DEVICE),
    "device": (DeviceError, _DEVICE),
    "unsupported": (Refused, "`kc-show` of the capture names the GPUs and the memory that it needs"),
}


@dataclass(frozen=True)
class Mismatch:
    """A region, or a variable of this name, whose state after the run is not the golden one."""

    name: str
    base_address: int
    first_offset_bytes: int
    size_bytes: int


@dataclass(frozen=True)
class WrongRuns:
    """Timed runs of a variant that left something wrong; ``reasons``: why, for people.

    unknown: how many could not be judged, because too many runs left different states.
    """

    wrong: int
    unknown: int
    runs: int
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class GuardedRuns:
    """Runs from one state in which memory could not be written that the captured kernel does not change.

    state: 0 is the captured one, others are further ones. runs: those that completed. fault: of the run
    behind these, or nothing. failure: why there are no more, if that is not the kernel's doing.
    """

    state: int
    runs: int
    size_bytes: int  # that could not be written
    fault: str = ""
    failure: str = ""


@dataclass(frozen=True)
class Peaks:
    """What a device can do at most, as it says itself; 0: not known."""

    memory_bytes_per_s: int = 0
    cache_bytes: int = 0
    compute_units: int = 0
    clock_hz: int = 0


@dataclass(frozen=True)
class ReplayResult:
    """The result of a replay. Times are from the device's clock, in the order of the runs.

    Instructions are the wave instructions of one dispatch; only the software GPU counts them.
    """

    outcome: ReplayOutcome
    explanation: str | None = None
    exit_code: int | None = None
    exit_signal: int | None = None
    phase: str | None = None  # where it was at its time limit
    baseline_ns: tuple[int, ...] = ()
    variant_ns: tuple[int, ...] = ()
    # What each timed run left: 0 is the golden state, others are numbers of dumped states.
    # Empty: not compared.
    baseline_states: tuple[int, ...] = ()
    variant_states: tuple[int, ...] = ()
    first_state: int = 0  # what the first timed run left; the dumps of other states have what differs from it
    variant_loaded: tuple[int, int] = (0, 0)  # address and size of the variant's code object
    baseline_instructions: int | None = None
    variant_instructions: int | None = None
    baseline_work: Work | None = None
    variant_work: Work | None = None
    # Which of the watched ranges each dispatch wrote, in their order; None: not recorded.
    writes: tuple[frozenset[int] | None, ...] = ()
    compared: bool = False
    compared_size_bytes: int = 0
    mismatches: tuple[Mismatch, ...] = ()
    outside: tuple[tuple[int, int], ...] = ()  # address and length of writes outside of all regions
    repeats: tuple[int, int] = (0, 0)  # further runs from the same state; how many of them differed
    unsettled: bool = False  # the variant's own variables still changed in the last further run
    states: int = 0  # further ones that it was run from
    was_kept: bool = False  # it was in a process that may have run others before, and may run more
    guarded: tuple[GuardedRuns, ...] = ()
    ran_once: str = ""  # why there were no further runs
    notes: tuple[str, ...] = ()
    without: tuple[str, ...] = ()  # what the replay did without, for people: a verdict says so, too
    hip_launch: bool = False
    restored_size_bytes: int = 0
    restore_ns: int = 0
    device_name: str = ""
    device_isa: str = ""
    runtime_version: str = ""

    peaks: Peaks = Peaks()  # of the device

    # With one of these two there are no times.
    wrong_runs: WrongRuns | None = None
    impossible: str | None = None

    def find_guarded(self, state: int) -> GuardedRuns | None:
        """Return the guarded runs from a state; None if there were none."""
        return next((each for each in self.guarded if each.state == state), None)

    def split_writes(self) -> tuple[frozenset[int] | None, list[frozenset[int] | None]]:
        """Return what all runs from the first state wrote together, and what each run from a further one did.

        None: not known, as for all if there is not one record for each run.
        """
        runs = 1 + self.repeats[0]
        if len(self.writes) != runs + self.states:
            return None, [None] * self.states
        known = [each for each in self.writes[:runs] if each is not None]
        first = frozenset[int]().union(*known) if len(known) == runs else None
        return first, list(self.writes[runs:])

    def without_times(self, wrong: WrongRuns | None = None, impossible: str | None = None) -> ReplayResult:
        """Return this result for runs that were wrong, or whose times cannot be true.

        The time of work that was not done says nothing.
        """
        return replace(
            self,
            wrong_runs=wrong,
            impossible=impossible,
            baseline_ns=(),
            variant_ns=(),
            baseline_instructions=None,
            variant_instructions=None,
            baseline_work=None,
            variant_work=None,
        )

    @property
    def matches_golden(self) -> bool | None:
        """Whether the state equals the golden post-state; none if it was not compared."""
        return not self.mismatches if self.compared else None


def interpret_report(report: dict[str, Any], exit_code: int, variant: Path | None = None) -> ReplayResult:
    """Convert a report to a result; raises an error if the replayer failed before it ran a kernel.

    variant: the file that the user gave.
    """
    if report["outcome"] == "failed":
        if variant is not None and report["message"].startswith(_VARIANT_REFUSED):
            why = report["message"].removeprefix(_VARIANT_REFUSED)
            text = f"{variant} cannot be loaded: {why}"
            if report["code"] == "unsupported":
                raise Refused(text, hint=_BUILD_FOR_THIS)
            raise UsageError(text, hint=_REBUILD)
        kind, hint = _RAISED.get(report["code"], (DeviceError, _DEVICE))
        if report["message"].startswith("no NVIDIA driver") or "CUDA_ERROR_NO_DEVICE" in report["message"]:
            hint = _ELSEWHERE
        elif report["message"].startswith(_CAPTURED_REFUSED):
            hint = _VERSION_OF_CAPTURE
        elif report["message"].startswith(("ROCr is not here", "this ROCr is too old")):
            hint = _NEWER_ROCM
        raise kind(report["message"], hint=hint)
    return _make_result(report, exit_code)


def read_report(path: Path) -> dict[str, Any] | None:
    """Read the report; None if the process died before it wrote one."""
    try:
        report = json.loads(path.read_text(errors="replace"))
    except (OSError, ValueError):
        return None
    return report if isinstance(report, dict) and report.get("version") == 1 else None


def _make_result(report: dict[str, Any], exit_code: int) -> ReplayResult:
    return ReplayResult(
        outcome=ReplayOutcome(report["outcome"]),
        explanation=report.get("message"),
        exit_code=exit_code,
        baseline_ns=tuple(report.get("baseline_ns", ())),
        variant_ns=tuple(report.get("variant_ns", ())),
        baseline_states=tuple(report.get("baseline_states", ())),
        variant_states=tuple(report.get("variant_states", ())),
        first_state=report.get("first_state", 0),
        variant_loaded=tuple(report.get("variant_loaded", (0, 0))),
        compared=report.get("compared", False),
        compared_size_bytes=report.get("compared_bytes", 0),
        mismatches=tuple(
            Mismatch(part["name"], part["base"], part["first_offset"], part["bytes"])
            for part in report.get("differences", ())
        ),
        outside=tuple((base, size) for base, size in report.get("outside", ())),
        repeats=tuple(report.get("repeats", (0, 0))),
        unsettled=report.get("unsettled", False),
        states=report.get("states", 0),
        guarded=tuple(
            GuardedRuns(size_bytes=report["guarded_bytes"], **each) for each in report.get("guarded", ())
        ),
        ran_once=report.get("ran_once", ""),
        notes=tuple(report.get("notes", ())),
        without=tuple(report.get("without", ())),
        restored_size_bytes=report.get("restored_bytes", 0),
        restore_ns=report.get("restore_ns", 0),
        device_name=report.get("device", {}).get("name", ""),
        device_isa=report.get("device", {}).get("isa", ""),
        runtime_version=report.get("runtime_version", ""),
        peaks=Peaks(
            **{name: report.get("device", {}).get(name, 0) for name in Peaks.__dataclass_fields__},
        ),
    )
