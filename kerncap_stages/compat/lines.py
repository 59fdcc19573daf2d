"""The documented lines and JSON of kerncap. Users' scripts read the lines, so they must stay exactly so."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kerncap_stages.compilers.cuda_tools import find_cuda_tool
from kerncap_stages.pages.verdict import ONLY_STRAY, describe_start, draw_heat
from kerncap_stages.text.terminal import make_printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kerncap_stages.compat.results import KernelStat
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.replay import Replay
    from kerncap_stages.manifests.validation import RegionResult, Validation

NO_COMPILE_COMMAND = "No compile command found (compile_commands.json missing or has no entry for this file)."
NO_RECOMPILE = "The 'make recompile' target will not be available."
ASSUMED_COMMAND = "'make recompile' assumes {} -O3: validate the unmodified source first."
MODES = {"smoke": "smoke", "baseline": "smoke", "byte_exact": "byte-exact", "numeric": "numeric"}


def name_edited_and_built(files: Sequence[str]) -> tuple[str, str]:
    """Name the file of a project to edit, and the file that ``make recompile`` makes of it."""
    names = {Path(path).name for path in files}
    if "kernel_variant.py" in names:
        return "kernel_variant.py", "candidate.hsaco (CUDA: candidate.cubin)"
    if "kernel_variant.s" in names:
        return "kernel_variant.s", "optimized.hsaco"
    if "kernel_variant.cu" not in names:
        return "kernel_variant.cpp", "optimized.hsaco"
    # In a project clang only makes PTX; the Makefile runs ptxas if there is one.
    is_ptx = "vfs.yaml" in names and find_cuda_tool("ptxas") is None
    return "kernel_variant.cu", "optimized.ptx" if is_ptx else "optimized.cubin"


def replay_lines(manifest: Replay, iterations: int) -> list[str]:
    """Return the lines of ``kerncap replay``: one for each time, and the result line."""
    times = _list_times_us(manifest)
    titles = ("Average GPU time", "Min", "Max")
    return [
        *(f"{title}: {time_us:.3f} us" for title, time_us in zip(titles, times, strict=False)),
        replay_footer(choose_exit_code(manifest), iterations, times),
    ]


def replay_footer(returncode: int, iterations: int, times_us: Sequence[float] = ()) -> str:
    """Return ``Result: PASS  replayed N iteration(s) OK (avg = ... us, min = ..., max = ...)``, or FAIL.

    times_us: average, minimum and maximum; empty if nothing was timed.
    """
    if returncode != 0:
        return f"Result: FAIL  (replay exited with code {returncode})"
    text = f"Result: PASS  replayed {iterations} iteration(s) OK"
    if times_us:
        average, least, most = (f"{time_us:.2f}" for time_us in times_us)
        text += f" (avg = {average} us, min = {least}, max = {most})"
    return text


def _list_times_us(manifest: Replay) -> tuple[float, ...]:
    timing = manifest.timing
    if timing is None or manifest.outcome.value != "completed":
        return ()
    return (timing.mean_ns / 1e3, timing.min_ns / 1e3, timing.max_ns / 1e3)


def choose_exit_code(manifest: Replay) -> int:
    """Return 0 for a replay that completed; else 128 + N for signal N, the replayer's exit code, or 1."""
    if manifest.outcome.value == "completed":
        return 0
    if manifest.exit_signal is not None:
        return 128 + manifest.exit_signal
    return manifest.exit_code or 1


def get_atol(manifest: Validation) -> float:
    """Return the absolute bound, 0 if there is none."""
    return (manifest.tolerance.absolute if manifest.tolerance else None) or 0.0


def make_region_lines(manifest: Validation) -> list[str]:
    """Return one line for each output that was compared, and one for each region with stray writes."""
    lines = [_make_region_line(region) for region in manifest.regions]
    for stray in manifest.stray_writes:
        first = stray.ranges[0][0] if stray.ranges else 0
        lines.append(
            f"  FAIL  region {stray.base_address:#x}: {stray.size_bytes} bytes written that the captured "
            f"kernel leaves alone, the first at +{first:#x}"
        )
    return lines


def make_details(manifest: Validation) -> list[str]:
    """Return the lines that ``kerncap validate -v`` prints above the result line."""
    found = [_describe_comparison(manifest)]
    for region, line in zip(manifest.regions, make_region_lines(manifest), strict=False):
        found.append(line)
        if region.heat and region.size_bytes:
            found.append(f"        [{draw_heat(region.heat, region.size_bytes)}] where bytes differ")
    return [
        *found,
        *make_region_lines(manifest)[len(manifest.regions) :],
        *(f"  {why}" for why in manifest.reasons),
    ]


def _describe_comparison(manifest: Validation) -> str:
    if MODES[manifest.mode.value] == "smoke":
        return "the captured kernel was replayed (smoke test)"
    how = "byte for byte" if manifest.mode.value == "byte_exact" else "within bounds"
    return f"the rebuilt kernel was replayed and compared with the captured one, {how}"


def _make_region_line(region: RegionResult) -> str:
    text = f"  {'PASS' if region.passed else 'FAIL'}  {make_printable(region.name)}{describe_start(region)}: "
    if region.passed and not region.differing_size_bytes:
        return text + f"{region.compared_size_bytes} bytes identical"
    if not region.passed and not region.elements_out_of_bounds:
        return text + ONLY_STRAY
    if region.element_type.value == "bytes":
        text += f"{region.elements_out_of_bounds} of {region.elements} bytes differ"
    else:
        kind = region.element_type.value
        text += f"{region.elements_out_of_bounds} of {region.elements} {kind} elements differ"
        text += f", {region.differing_size_bytes} bytes differ"
    if region.nan_actual or region.nan_expected:
        text += f", {region.nan_actual} NaN (captured: {region.nan_expected})"
    if region.worst is not None:
        worst = region.worst
        text += f"; worst at {worst.address:#x}: {worst.actual} instead of {worst.expected}"
    return text


def make_profile_table(kernels: Sequence[KernelStat], longest: int = 20) -> list[str]:
    """Return the table of the top kernels. The name comes last and is whole: ``extract`` takes it."""
    lines = [f"{'Rank':>4}  {'Calls':>8}  {'Total (ms)':>12}  {'Avg (us)':>12}  {'%':>6}  Kernel"]
    for rank, kernel in enumerate(kernels[:longest], start=1):
        lines.append(
            f"{rank:>4}  {kernel.calls:>8}  {kernel.total_duration_ns / 1e6:>12.3f}  "
            f"{kernel.avg_duration_ns / 1e3:>12.2f}  {kernel.percentage:>6.1f}  {make_printable(kernel.name)}"
        )
    if len(kernels) > longest:
        lines.append(f"... and {len(kernels) - longest} more")
    return lines


def replay_json(manifest: Replay, capture: Capture, hsaco: Path) -> dict[str, Any]:
    """Make the documented object of ``kerncap replay --json``. It has no ``timing`` if nothing was timed.

    hsaco: the code object that ran.
    """
    device = capture.device
    timing = manifest.timing
    times = {}
    if timing is not None:
        times["timing"] = {
            "unit": "microseconds",
            "average": timing.mean_ns / 1e3,
            "min": timing.min_ns / 1e3,
            "max": timing.max_ns / 1e3,
            "median": timing.median_ns / 1e3,
            "source": timing.source.value,
            "instructions": timing.instructions,
        }
    return {
        "kernel": {"name": capture.kernel.demangled_name, "hsaco_path": str(hsaco)},
        # Every iteration starts from the captured state: no memory is carried over.
        "execution": {"iterations": manifest.plan.iterations, "mode": "stateless"},
        "environment": {
            "gpu_arch": device.architecture,
            "rocm_version": manifest.environment.toolkit_version or "",
            "hsa_version": manifest.environment.runtime_version or "",
            "pid": os.getpid(),
        },
        **times,
        "result": {
            "outcome": manifest.outcome.value,
            "explanation": manifest.explanation,
            "matches_capture": manifest.matches_golden,
        },
    }
