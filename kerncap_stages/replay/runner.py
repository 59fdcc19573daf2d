"""Runs the native replayer in its own process: if it crashes or hangs, that is a result."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.code.kernel_facts import strip_unit
from kerncap_stages.errors import ArtifactError, DeviceError, UsageError
from kerncap_stages.machine.cupti import CUPTI, choose_cupti_paths
from kerncap_stages.machine.instruction_counts import read_counts
from kerncap_stages.machine.native_paths import find_native_file
from kerncap_stages.machine.softgpu import fall_back
from kerncap_stages.machine.temporary import TemporaryFolder
from kerncap_stages.manifests.environment import Backend
from kerncap_stages.manifests.replay import ReplayOutcome
from kerncap_stages.replay import accesses
from kerncap_stages.replay.cuda_code import explain_fault, link_baseline, link_variant
from kerncap_stages.replay.one_gpu import VARIABLE, choose_only_gpu
from kerncap_stages.replay.plan import PlanFiles, escape_path, write_plan
from kerncap_stages.replay.process import name_signal, read_phase, require_own_ending, run_replayer
from kerncap_stages.replay.report import ReplayResult, interpret_report, read_report
from kerncap_stages.replay.standby import REPLAYERS
from kerncap_stages.replay.variant import explain_unfit, needs_host, prepare_variant, read_variant, uses_heap
from kerncap_stages.replay.variant_shape import VariantShape

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kerncap_stages.digest import MemoryRef
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.kernel import KernargSlot
    from kerncap_stages.replay.accesses import Watched
    from kerncap_stages.replay.process import Report
    from kerncap_stages.replay.standby import Standbys
    from kerncap_stages.store import Store

_ROOM_BYTES = 256 << 10  # more than a replay's report and progress files need
_OTHER_HEAP = (
    "the kernel may allocate memory on the device (malloc): a replay has its own heap with other addresses, "
    "so results that depend on these addresses differ"
)


@dataclass(frozen=True)
class Guard:
    """Asks for guarded runs: memory in which the captured kernel changes nothing cannot be written.

    opened: what can be written all the same, as first addresses and those behind the ends.
    fresh: whether there is such a run from fresh values, too.
    """

    opened: tuple[tuple[int, int], ...] = ()
    fresh: bool = True


@dataclass(frozen=True)
class Repeats:
    """Further runs from the same state, each compared with the first.

    budget_ms: when it is used up, no further run starts; there is at least one unless a run takes very long.
    unsettled: how many runs there are, in a longer time, while the kernel's own variables change in each.
    kept: how many runs that differ from the first are dumped, into ``differing_1`` and so on.
    restore_all: restore the whole state between runs, not only what the captured kernel writes.
    guard: guarded runs follow these, as many.
    order: seed of another order of waves, in which a software GPU makes every second of these runs.
    apart: in a process that has run nothing before.
    """

    count: int
    budget_ms: int
    kept: int = 1
    restore_all: bool = True
    unsettled: int = 0
    guard: Guard | None = None
    order: int | None = None
    apart: bool = False


@dataclass(frozen=True)
class ReplayRequest:
    """The options of one run of the native replayer."""

    variant: Path | None = None
    iterations: int = 1
    warmup: int = 0
    flush_cache: bool = False
    compare: bool = True
    interleave: bool = False
    hip_launch: bool = False
    verify: bool = True
    verified: frozenset[MemoryRef] = frozenset()  # of what is verified, what need not be: it was before
    dump_folder: Path | None = None
    states_folder: Path | None = None  # dump what timed runs leave that is not the golden state
    changes_only: bool = False  # dump only chunks that changed: native/replay/state_file.hpp
    grid_work_items: tuple[int, int, int] | None = None
    block_work_items: tuple[int, int, int] | None = None
    dynamic_lds_bytes: int | None = None
    variant_shape: VariantShape | None = None  # of the variant alone
    timeout_s: float | None = None
    setup_s: float = 0.0  # how much longer it may take until the kernel is launched
    states_s: float = 0.0  # how long the runs from further states may take, after timeout_s for the rest
    repeats: Repeats | None = None
    # Further states to run from in the same process: regions, by base address, that are not as captured.
    # Their outputs are dumped into ``state_1`` and so on.
    states: tuple[Mapping[int, MemoryRef], ...] = ()
    guarded_states: frozenset[int] = frozenset()  # numbers of those that have a guarded run, too
    state_orders: Mapping[int, int] = field(default_factory=dict)  # as in PlanFiles
    states_within_ms: int | None = None  # leave them out if the first run takes longer
    timed: bool = True  # with the device's clock
    # Accesses that the software GPU records; None: those of the first run of each kernel that is timed.
    watched: Watched | None = None
    quiet: bool = False  # print nothing: it is a trial, which may fault
    devices: Mapping[int, int] = field(default_factory=dict)
    progress: Report | None = None


def replay_capture(
    store: Store, capture: Capture, request: ReplayRequest, standbys: Standbys | None = None
) -> ReplayResult:
    """Replay a capture. A run that fits ``standbys`` uses a replayer that waits there, if there is one.

    A fault, a crash or a time-out of the run is a result.

    Raises an error if the replayer fails before it runs a kernel: Refused for the wrong GPU, DeviceError if
    it cannot get memory at the captured addresses, ArtifactError for damage.
    """
    program = find_native_file(REPLAYERS[capture.environment.backend])
    with TemporaryFolder("replay") as name:
        folder = Path(name)
        baseline = folder / "baseline.co"
        baseline.write_bytes(store.get_kept(capture.code_digest))
        plan = folder / "plan"
        is_hsa = capture.environment.backend is Backend.HSA
        variant = request.variant
        facts = read_variant(variant, capture) if variant is not None else None
        shape = None if variant is None else request.variant_shape
        block = request.block_work_items or (shape or VariantShape()).resolve(capture.launch)[1]
        if facts is not None and (why := explain_unfit(facts, block)) is not None:
            return ReplayResult(ReplayOutcome.FAULTED, explanation=f"{why}: it cannot be launched")
        slots = (*capture.kernel.slots, *(facts.slots if facts is not None else ()))
        request = replace(request, hip_launch=_needs_hip(request, slots, is_hsa=is_hsa))
        to_load = None if variant is None else prepare_variant(variant, capture, folder)
        only_gpu = None if request.devices else choose_only_gpu(capture)
        devices = request.devices if only_gpu is None else {capture.dispatch.device_index: 0}
        files = PlanFiles(baseline, to_load, facts, devices, states=request.states, shape=shape)
        files = replace(files, state_orders=request.state_orders, verified=request.verified)
        if request.repeats is not None and request.repeats.guard is not None:
            opened = request.repeats.guard.opened
            files = replace(files, opened=opened, guarded_states=request.guarded_states)
        notes: tuple[str, ...] = ()
        if not is_hsa:
            files, notes = _link_code(store, capture, files, folder)
        write_plan(store, capture, files, plan)
        captured = capture.device
        counts = folder / "counts"
        environment = {**os.environ, **fall_back(os.environ, captured.architecture)}
        if only_gpu is not None:
            environment[VARIABLE] = only_gpu
        if capture.environment.backend is Backend.CUDA:
            # The same clock as kc-profile's: CUPTI's, if CUPTI is found.
            environment[CUPTI] = choose_cupti_paths(os.environ)
        # A user who set the variable keeps the counts. A hardware GPU ignores it.
        environment.setdefault("KERNCAP_SOFTGPU_COUNT", str(counts))
        watched = request.watched or (accesses.watch_data(capture) if request.timed else None)
        if watched is not None and is_hsa:
            watched.write(folder / "watched")
            environment[accesses.VARIABLE] = str(folder / "watched")
        command = [str(program), str(plan), *_make_arguments(request)]
        if standbys is not None and not standbys.fits(timed=request.timed, has_variant=variant is not None):
            standbys = None
        result = _run(command, environment, request, folder / "report", standbys)
        result = replace(result, hip_launch=request.hip_launch, notes=(*notes, *result.notes))
        if result.outcome is ReplayOutcome.FAULTED and not is_hsa:
            result = replace(result, notes=(*result.notes, *explain_fault(store, capture)))
        if result.mismatches and uses_heap(capture.kernel.slots):
            result = replace(result, notes=(*result.notes, _OTHER_HEAP))
        return _add_instructions(result, request, counts, strip_unit(capture.kernel.mangled_name))


def _link_code(
    store: Store, capture: Capture, files: PlanFiles, folder: Path
) -> tuple[PlanFiles, tuple[str, ...]]:
    """Add code objects that are linked to the captured addresses to the files; also returns notes."""
    made = {"baseline": link_baseline(store, capture, files.baseline.read_bytes())}
    if files.variant is not None:
        made["variant"] = link_variant(store, capture, files.variant.read_bytes())
    lines: list[str] = []
    for role, linked in made.items():
        if linked.data is not None:
            path = folder / f"{role}.linked"
            path.write_bytes(linked.data)
            lines.append(f"linked {role} {escape_path(path)}")
        lines += linked.lines
    return replace(files, lines=tuple(lines)), tuple(
        note for linked in made.values() for note in linked.notes
    )


def _add_instructions(
    result: ReplayResult, request: ReplayRequest, counts: Path, symbol: str
) -> ReplayResult:
    """Add the number of instructions of one dispatch of each code object, if all runs were counted.

    Of repeats and of runs from further states, which come after them, none is used.
    """
    if not counts.is_file():
        return result
    try:
        read = read_counts(counts)
    except ArtifactError:
        _require_room(counts.parent)
        raise
    counted = [count for count in read if strip_unit(count.symbol) == symbol]
    if request.watched is not None and request.watched.every:
        result = replace(result, writes=tuple(map(accesses.find_writes, counted)))
    candidates = 2 if request.interleave else 1  # run in turn, the baseline first
    runs = candidates * (request.warmup + request.iterations)
    has_more = request.repeats is not None or bool(request.states)
    if len(counted) < runs or (len(counted) > runs and not has_more):
        return result
    has_baseline = request.variant is None or request.interleave
    baseline = counted[runs - candidates] if has_baseline else None
    variant = None if request.variant is None else counted[runs - 1]
    return replace(
        result,
        baseline_instructions=None if baseline is None else baseline.wave_instructions,
        variant_instructions=None if variant is None else variant.wave_instructions,
        # Of each kernel the first run is recorded.
        baseline_work=None if baseline is None else accesses.find_work(counted[0]),
        variant_work=None if variant is None else accesses.find_work(counted[candidates - 1]),
    )


def _needs_hip(request: ReplayRequest, slots: Iterable[KernargSlot], *, is_hsa: bool) -> bool:
    """Whether HIP launches the kernel: the user asks for it, or the kernel calls the host, as HIP allows."""
    if request.hip_launch and not is_hsa:
        raise UsageError("--hip-launch is for captures of HIP programs", hint="leave it out")
    return is_hsa and (request.hip_launch or needs_host(slots))


def _make_arguments(request: ReplayRequest) -> list[str]:
    words = ["--iterations", str(request.iterations), "--warmup", str(request.warmup)]
    words += [
        flag
        for flag, wanted in (
            ("--flush-cache", request.flush_cache),
            ("--no-compare", not request.compare),
            ("--interleave", request.interleave),
            ("--changes-only", request.changes_only),
            ("--hip-launch", request.hip_launch),
            ("--untimed", not request.timed),
            ("--quiet", request.quiet),
            ("--no-verify", not request.verify),
        )
        if wanted
    ]
    if request.dump_folder is not None:
        try:
            request.dump_folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(
                f"cannot create the folder {request.dump_folder}: {error.strerror}",
                hint="give another folder",
            ) from error
        words += ["--dump-output", str(request.dump_folder)]
    if request.states_folder is not None:
        words += ["--states", str(request.states_folder)]
    for flag, shape in (("--grid", request.grid_work_items), ("--block", request.block_work_items)):
        if shape is not None:
            words += [flag, ",".join(map(str, shape))]
    if request.dynamic_lds_bytes is not None:
        words += ["--lds", str(request.dynamic_lds_bytes)]
    if request.repeats is not None:
        words += ["--repeats", str(request.repeats.count), "--repeat-ms", str(request.repeats.budget_ms)]
        words += ["--unsettled-repeats", str(request.repeats.unsettled)]
        words += ["--keep-differing", str(request.repeats.kept)]
        words += ["--restore-all"] if request.repeats.restore_all else []
        if request.repeats.order is not None:
            words += ["--order", str(request.repeats.order)]
    if request.states_within_ms is not None:
        words += ["--states-within-ms", str(request.states_within_ms)]
    return words


def _run(
    command: list[str],
    environment: dict[str, str],
    request: ReplayRequest,
    report_file: Path,
    standbys: Standbys | None,
) -> ReplayResult:
    command = [*command, "--report", str(report_file), "--parent", str(os.getpid())]
    progress = None
    if request.progress is not None or request.setup_s or request.states_s:
        progress = (report_file.with_name("progress"), request.progress)
        command += ["--progress", str(progress[0])]
    has_variant = request.variant is not None
    standby = None
    if standbys is not None and not (request.repeats and request.repeats.apart):
        standby = standbys.take(command[1:], environment, has_variant=has_variant)
    if standby is not None:
        code = standby.run(request.timeout_s, progress, request.setup_s, request.states_s)
    else:
        code = run_replayer(
            command,
            environment,
            request.timeout_s,
            progress=progress,
            setup_s=request.setup_s,
            states_s=request.states_s,
        )
    if code is None:
        return ReplayResult(
            ReplayOutcome.TIMED_OUT,
            explanation=f"the replay did not end within {request.timeout_s:g} s",
            phase=None if progress is None else read_phase(progress[0]),
        )
    require_own_ending(code, report_file.parent)
    if code < 0:
        number = -code
        return ReplayResult(
            ReplayOutcome.CRASHED,
            explanation=f"the replay process ended by signal {number} ({name_signal(number)})",
            exit_signal=number,
        )
    report = read_report(report_file)
    if report is None:
        _require_room(report_file.parent)
        return ReplayResult(
            ReplayOutcome.CRASHED,
            explanation=f"the replay process ended with exit code {code} and no report",
            exit_code=code,
        )
    result = interpret_report(report, code, request.variant)
    return replace(result, was_kept=standby is not None and standby.is_kept)


def _require_room(folder: Path) -> None:
    """Raise DeviceError if the disk is full: a missing report then says nothing about the kernel."""
    try:
        (folder / "room").write_bytes(bytes(_ROOM_BYTES))
    except OSError as error:
        raise DeviceError(
            f"the replay could not write its report in {folder}: {error.strerror}",
            hint="free space there, or set TMPDIR to another folder, then run it again",
        ) from error
