"""The results of class ``Kerncap``'s methods: the documented attributes, and a few more."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kerncap_stages.pages.verdict import format_result_line


@dataclass(frozen=True)
class KernelStat:
    """All dispatches of one kernel. Times are measured by the device, in nanoseconds.

    ``percentage``: of the GPU time of all kernels, 0 to 100.
    """

    name: str
    calls: int
    total_duration_ns: int
    avg_duration_ns: int
    percentage: float
    min_duration_ns: int = 0
    max_duration_ns: int = 0
    stddev_ns: float = 0.0


@dataclass(frozen=True)
class ExtractResult:
    """A project that was made from one dispatch.

    ``has_source``: the kernel's source was found and copied. ``can_recompile``: ``make recompile`` works.
    ``notes``: what a step could not do, and why. ``generated_files``: paths in the project's folder;
    ``capture/`` stands for everything in that folder. ``language``: ``hip``, ``cuda`` or ``triton``;
    ``unknown`` if neither source nor code object tells.
    ``capture`` and ``reproducer``: digests of the artifacts in the store.
    """

    output_dir: str
    capture_dir: str
    language: str | None = None
    has_source: bool = False
    generated_files: list[str] = field(default_factory=list)
    can_recompile: bool = False
    notes: list[str] = field(default_factory=list)
    capture: str = ""
    reproducer: str = ""


@dataclass(frozen=True)
class ReplayResult:
    """A dispatch that was run again.

    ``returncode``: 0 if every iteration ran to its end. ``timing_us``: the mean over the counted iterations,
    in microseconds by the device's clock; None if nothing was timed. If there are several iterations, one
    that is not counted comes first. ``stdout`` and ``stderr``: what ``kerncap replay`` prints.
    ``matches_capture``: whether memory was as after the captured dispatch; None if it was not compared.
    ``software_gpu``: the times are an interpreter's and say nothing about hardware. ``instructions``: on the
    software GPU, the instructions that the waves of one dispatch executed; these can be compared.
    ``report``: what ``--json`` prints. ``replay``: the artifact's digest, in the project's store.
    """

    returncode: int
    stdout: str
    stderr: str
    timing_us: float | None = None
    min_us: float | None = None
    max_us: float | None = None
    median_us: float | None = None
    iterations: int = 1
    matches_capture: bool | None = None
    software_gpu: bool = False
    instructions: int | None = None
    outcome: str = "completed"
    explanation: str | None = None
    replay: str = ""
    report: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ValidationResult:
    """The verdict on a variant, or if ``mode`` is ``smoke``, on the captured kernel itself.

    ``mode``: ``smoke``, ``byte-exact`` or ``numeric``. ``max_error``: the largest absolute error of an
    element; NaN if NaNs differ. ``atol``: the absolute bound; None unless numeric. ``bounds``: all bounds,
    as ``result_line`` names them. ``region_lines``: one line for each region. ``details``: the lines that
    ``kerncap validate -v`` prints above ``result_line``. ``outputs_total`` and ``outputs_passed``: the counts
    of numeric comparisons. ``notes``: what the verdict does not cover, for example sources that were edited
    after the code object was built.
    """

    passed: bool
    details: list[str]
    max_error: float = 0.0
    mode: str = "smoke"
    region_lines: list[str] = field(default_factory=list)
    regions_total: int | None = None
    regions_identical: int | None = None
    outputs_total: int | None = None
    outputs_passed: int | None = None
    atol: float | None = None
    bounds: str = ""
    reasons: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    validation: str = ""

    @property
    def result_line(self) -> str:
        """``Result: PASS  (...)`` or ``Result: FAIL  (...)``, as ``kerncap validate`` prints it last."""
        total = self.outputs_total if self.mode == "numeric" else self.regions_total
        agreeing = self.outputs_passed if self.mode == "numeric" else self.regions_identical
        bounds = self.bounds or f"atol = {self.atol or 0.0:g}"
        return format_result_line(self.mode, self.passed, total or 0, agreeing or 0, self.max_error, bounds)
