"""What came of a run of the native replayer: its report, read."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kerncap_stages.errors import ArtifactError, DeviceError, KerncapError, Refused, UsageError
from kerncap_stages.manifests.replay import ReplayOutcome

if TYPE_CHECKING:
    from pathlib import Path

# What the replayer reports before it runs anything is an error of ours to raise, not a result.
_DAMAGED = "`kc-store check` names what is damaged or missing: import it again, or capture again"
_SYSTEM = "look at the rights and the room there, and run it again"
_DEVICE = "run it again: each start has other addresses; `kc-show --about` names GPUs and back ends"
_ELSEWHERE = (
    "replay it on a machine with an NVIDIA GPU like the captured one: `kc-store export` takes it there"
)
_NEWER_ROCM = "install ROCm 6.4 or later, or replay it where that is: `kc-store export` takes it there"
_RAISED: dict[str, tuple[type[KerncapError], str]] = {
    "invalid_argument": (UsageError, "`kc-replay --help` shows the arguments"),
    "not_found": (ArtifactError, _DAMAGED),
    "damaged": (ArtifactError, _DAMAGED),
    "malformed": (ArtifactError, "no repair helps: capture again with this version"),
    "no_space": (DeviceError, _SYSTEM),
    "permission": (DeviceError, _SYSTEM),
    "io": (DeviceError, _SYSTEM),
    "timeout": (DeviceError, _DEVICE),
    "device": (DeviceError, _DEVICE),
    "unsupported": (Refused, "`kc-show` of the capture names the GPUs and the memory that it needs"),
}


@dataclass(frozen=True)
class Mismatch:
    """A region, or a variable of that name, whose state after the run is not the golden one."""

    name: str
    base_address: int
    first_offset_bytes: int
    size_bytes: int


@dataclass(frozen=True)
class ReplayResult:
    """What came of a run. Times are the device's own, in the order of the runs.

    Instructions are those of one dispatch, counted by wave; none but on the software GPU.
    """

    outcome: ReplayOutcome
    explanation: str | None = None
    exit_code: int | None = None
    exit_signal: int | None = None
    baseline_ns: tuple[int, ...] = ()
    variant_ns: tuple[int, ...] = ()
    variant_loaded: tuple[int, int] = (0, 0)  # address and size of the variant's code object
    baseline_instructions: int | None = None
    variant_instructions: int | None = None
    compared: bool = False
    compared_size_bytes: int = 0
    mismatches: tuple[Mismatch, ...] = ()
    outside: tuple[tuple[int, int], ...] = ()  # address and length of what was written and is no region's
    repeats: tuple[int, int] = (0, 0)  # further runs from the same state; those that left something else
    ran_once: str = ""  # why there are none of these
    notes: tuple[str, ...] = ()
    hip_launch: bool = False
    restored_size_bytes: int = 0
    restore_ns: int = 0
    device_name: str = ""
    device_isa: str = ""
    runtime_version: str = ""

    @property
    def matches_golden(self) -> bool | None:
        """Whether everything is as it was after the captured dispatch; none where it was not compared."""
        return not self.mismatches if self.compared else None


def told(report: dict[str, Any], exit_code: int) -> ReplayResult:
    """What a report tells; raises what stood in the way before anything ran."""
    if report["outcome"] == "failed":
        kind, hint = _RAISED.get(report["code"], (DeviceError, _DEVICE))
        if report["message"].startswith("no NVIDIA driver") or "CUDA_ERROR_NO_DEVICE" in report["message"]:
            hint = _ELSEWHERE
        elif report["message"].startswith(("ROCr is not here", "this ROCr is too old")):
            hint = _NEWER_ROCM
        raise kind(report["message"], hint=hint)
    return _result(report, exit_code)


def read_report(path: Path) -> dict[str, Any] | None:
    """The report, unless the process died before it wrote one."""
    try:
        report = json.loads(path.read_text(errors="replace"))
    except (OSError, ValueError):
        return None
    return report if isinstance(report, dict) and report.get("version") == 1 else None


def _result(report: dict[str, Any], exit_code: int) -> ReplayResult:
    return ReplayResult(
        outcome=ReplayOutcome(report["outcome"]),
        explanation=report.get("message"),
        exit_code=exit_code,
        baseline_ns=tuple(report.get("baseline_ns", ())),
        variant_ns=tuple(report.get("variant_ns", ())),
        variant_loaded=tuple(report.get("variant_loaded", (0, 0))),
        compared=report.get("compared", False),
        compared_size_bytes=report.get("compared_bytes", 0),
        mismatches=tuple(
            Mismatch(part["name"], part["base"], part["first_offset"], part["bytes"])
            for part in report.get("differences", ())
        ),
        outside=tuple((base, size) for base, size in report.get("outside", ())),
        repeats=tuple(report.get("repeats", (0, 0))),
        ran_once=report.get("ran_once", ""),
        notes=tuple(report.get("notes", ())),
        restored_size_bytes=report.get("restored_bytes", 0),
        restore_ns=report.get("restore_ns", 0),
        device_name=report.get("device", {}).get("name", ""),
        device_isa=report.get("device", {}).get("isa", ""),
        runtime_version=report.get("runtime_version", ""),
    )
