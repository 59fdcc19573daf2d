"""What ``Kerncap.replay`` does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerncap_stages.cli.artifacts import find_capture, list_for_user
from kerncap_stages.compat.lines import choose_exit_code, replay_json, replay_lines
from kerncap_stages.compat.projects import find_project, find_variant
from kerncap_stages.compat.results import ReplayResult
from kerncap_stages.generate.kinds import choose_kind
from kerncap_stages.manifests import load_as
from kerncap_stages.manifests.capture import Capture
from kerncap_stages.manifests.timing import TimeSource
from kerncap_stages.replay.engine import run_replay
from kerncap_stages.replay.options import ReplayOptions
from kerncap_stages.validate.timed.runs import count_changed_bytes, judge_timed_runs

if TYPE_CHECKING:
    from os import PathLike
    from pathlib import Path

    from kerncap_stages.manifests.replay import Replay

# The first run of a kernel finds cold caches. So repeated replays begin with one that does not count.
WARMUP_RUNS = 1


def replay_project(
    store_folder: Path | None,
    project: Path,
    hsaco: str | PathLike[str] | None,
    iterations: int,
    *,
    dump_output: bool,
    hip_launch: bool,
    timeout_s: float | None,
) -> ReplayResult:
    """Replay the first capture of a project, or another code object instead of the captured one."""
    folder = find_project(project)
    store, capture = find_capture(store_folder, str(folder.resolve()))
    variant = find_variant(folder, hsaco)
    options = ReplayOptions(
        variant=variant,
        iterations=iterations,
        warmup=WARMUP_RUNS if iterations > 1 else 0,
        dump_folder=project / "output" if dump_output else None,
        hip_launch=hip_launch,
        timeout_s=timeout_s,
    )
    digest, manifest, _ = run_replay(store, capture, options, judge_timed_runs, count_changed_bytes)
    captured = load_as(store, capture, Capture)
    timing = manifest.timing
    return ReplayResult(
        returncode=choose_exit_code(manifest),
        stdout=_join(replay_lines(manifest, iterations)),
        stderr=_join(_make_remarks(manifest, list_for_user(store, digest, store_folder))),
        timing_us=None if timing is None else timing.mean_ns / 1e3,
        min_us=None if timing is None else timing.min_ns / 1e3,
        max_us=None if timing is None else timing.max_ns / 1e3,
        median_us=None if timing is None else timing.median_ns / 1e3,
        iterations=iterations,
        matches_capture=manifest.matches_golden,
        software_gpu=_is_of_software(manifest),
        instructions=None if timing is None else timing.instructions,
        outcome=manifest.outcome.value,
        explanation=manifest.explanation,
        replay=str(digest),
        report=replay_json(manifest, captured, variant or folder / choose_kind(captured).code),
    )


def _make_remarks(manifest: Replay, unlisted: str | None) -> list[str]:
    remarks = [text for text in (manifest.explanation, manifest.impossible, unlisted) if text is not None]
    if manifest.matches_golden is False:
        remarks.append("memory differs from what the captured dispatch left: see `kerncap validate`")
    if _is_of_software(manifest):
        remarks.append("times are the software GPU's and say nothing about hardware")
    return remarks


def _is_of_software(manifest: Replay) -> bool:
    return manifest.timing is not None and manifest.timing.source is TimeSource.SOFTWARE_GPU


def _join(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
