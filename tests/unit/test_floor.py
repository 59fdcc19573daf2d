"""The least time of a dispatch is computed from what it must write and what the device says of itself."""

from __future__ import annotations

import manifest_examples
import pytest
from manifest_examples import digest

from kerncap_stages.digest import MemoryRef
from kerncap_stages.manifests.memory import MemoryKind, Region
from kerncap_stages.manifests.replay import ReplayOutcome
from kerncap_stages.manifests.timing import TimeSource, Work
from kerncap_stages.replay.floor import find_changed_bytes, find_floor, find_impossible, lies_below
from kerncap_stages.replay.floor_lines import write_floor_lines
from kerncap_stages.replay.report import Peaks, ReplayResult, interpret_report
from kerncap_stages.replay.timing import compare, summarise

MIB = 1 << 20
# 1 TB/s behind a cache of 50 MiB; 100 units store 128 bytes at 1 GHz: 12.8 TB/s.
PEAKS = Peaks(memory_bytes_per_s=10**12, cache_bytes=50 * MIB, compute_units=100, clock_hz=10**9)


def region(base: int, written: int, kind: MemoryKind = MemoryKind.DEVICE_COARSE, **changes: object) -> Region:
    fields: dict[str, object] = {
        "base_address": base,
        "size_bytes": 1 << 30,
        "kind": kind,
        "device_index": 0,
        "accessible_from": (0,),
        "pre": MemoryRef.to(digest("pre")),
        "post": MemoryRef.to(digest("post")),
        "written": ((0, written),) if written else (),
        "written_size_bytes": written,
    }
    return Region.model_validate(fields | changes)


def capture(*regions: Region):
    return manifest_examples.capture(regions=regions, module_variables=())


def result(variant_ns: int, baseline_ns: int | None = None, states: tuple[int, ...] = ()) -> ReplayResult:
    return ReplayResult(
        ReplayOutcome.COMPLETED,
        variant_ns=(variant_ns,) * 5,
        baseline_ns=() if baseline_ns is None else (baseline_ns,) * 5,
        variant_states=states,
        peaks=PEAKS,
    )


def never() -> int:
    raise AssertionError("nobody has to count")


def test_only_memory_that_nobody_else_writes_must_be_written():
    others = [
        region(2 << 30, 100, MemoryKind.HOST_PINNED, device_index=None),
        region(4 << 30, 200, MemoryKind.MANAGED),
        region(6 << 30, 400, MemoryKind.IPC),
        region(8 << 30, 800, device_index=1),
        region(10 << 30, 1600, MemoryKind.CODE_OBJECT),
    ]
    assert find_changed_bytes(capture(*others, region(1 << 40, 7), region(2 << 40, 0))) == 7


def test_memory_that_is_mapped_twice_is_written_once():
    twice = [region(base << 40, 64, MemoryKind.VMEM, flags=("physical:1",)) for base in (1, 2)]
    other = region(3 << 40, 8, MemoryKind.VMEM, flags=("physical:2",))
    assert find_changed_bytes(capture(*twice, other)) == 72


def test_beyond_the_cache_the_memory_bounds_the_time():
    """150 MiB, of which the cache may keep 50: 100 MiB at 1 TB/s."""
    floor = find_floor(capture(region(1 << 40, 150 * MIB)), PEAKS)
    assert floor is not None
    assert floor.least_ns == pytest.approx(100 * MIB / 1000)


@pytest.mark.parametrize("written", [MIB, 50 * MIB])
def test_what_the_cache_holds_only_has_to_leave_the_compute_units(written):
    floor = find_floor(capture(region(1 << 40, written)), PEAKS)
    assert floor is not None
    assert floor.least_ns == pytest.approx(written / 12_800)


@pytest.mark.parametrize("peaks", [Peaks(), Peaks(memory_bytes_per_s=10**12), Peaks(compute_units=100)])
def test_what_a_device_does_not_say_gives_no_time(peaks):
    floor = find_floor(capture(region(1 << 40, 150 * MIB)), peaks)
    assert floor is not None
    assert floor.least_ns is None
    assert not lies_below(floor, summarise([1], TimeSource.DEVICE))


def test_without_a_golden_state_there_is_no_floor():
    update = {"post": None, "written": None, "written_size_bytes": None}
    no_post = capture(region(1 << 40, 0).model_copy(update=update))
    assert find_changed_bytes(no_post) is None
    assert find_floor(no_post, PEAKS) is None


def test_a_time_below_the_floor_is_impossible():
    """The floor is 104,858 ns."""
    written = capture(region(1 << 40, 150 * MIB))
    floor, why = find_impossible(written, result(50_000, 200_000), never)
    assert floor is not None
    assert why == (
        "impossible: 50.0 µs, but to write the 150 MiB that it changes takes at least 105 µs on this GPU"
    )
    # The clock may be wrong by two of its ticks, and the memory a quarter faster than it says.
    assert find_impossible(written, result(83_000, 200_000), never)[1] is None
    assert find_impossible(written, result(82_000, 200_000), never)[1] is not None
    assert find_impossible(written, result(50_000), never)[1] is not None


def test_peaks_that_the_captured_kernel_exceeds_prove_nothing():
    written = capture(region(1 << 40, 150 * MIB))
    assert find_impossible(written, result(50_000, 60_000), never)[1] is None


def test_a_variant_within_bounds_need_not_change_everything():
    """Of what it changed itself, all must be written."""
    written = capture(region(1 << 40, 150 * MIB))
    runs = result(50_000, 200_000, (0, 1, 1, 1, 1))
    floor, why = find_impossible(written, runs, lambda: 60 * MIB)
    assert floor is not None
    assert floor.changed_size_bytes == 60 * MIB
    assert why is None
    assert find_impossible(written, runs, lambda: 140 * MIB)[1] is not None


def test_the_report_tells_the_peaks():
    device = {"name": "GPU", "isa": "sm_90", "memory_bytes_per_s": 10**12, "cache_bytes": 50 * MIB}
    report = {"outcome": "completed", "device": device | {"compute_units": 100, "clock_hz": 10**9}}
    assert interpret_report(report, 0).peaks == PEAKS
    assert interpret_report({"outcome": "completed"}, 0).peaks == Peaks()


def lines(median_ns: int, changed: int, baseline_ns: int | None = None) -> list[str]:
    floor = find_floor(capture(region(1 << 40, changed)), PEAKS)
    timing = summarise([median_ns] * 3, TimeSource.DEVICE)
    assert timing is not None
    baseline = summarise([baseline_ns] * 3, TimeSource.DEVICE) if baseline_ns else None
    update = {
        "floor": floor,
        "timing": timing,
        "impossible": None,
        "comparison": None if baseline is None else compare(baseline, timing),
    }
    return list(write_floor_lines(manifest_examples.replay().model_copy(update=update)))


def test_beside_a_time_is_how_far_it_is_from_the_floor():
    assert lines(1_000_000, 550 * MIB) == [
        "floor: 550 MiB must be written, which takes at least 524 µs: the kernel takes 1.91 times that; "
        "writes alone are 58 % of the memory's peak of 1,000 GB/s; what must be read is not known on a GPU"
    ]
    (small,) = lines(10_000, MIB)
    assert "takes at least 82 ns: the kernel takes 122 times that" in small
    assert "a cache of 50.0 MiB may hold it all" in small
    assert "memory's peak" not in small


def test_a_captured_kernel_below_the_floor_makes_the_peak_doubtful():
    assert "not what it says" in lines(100_000, 550 * MIB, 110_000)[1]
    assert "not what it says" in lines(600_000, 550 * MIB, 520_000)[1]
    assert len(lines(600_000, 550 * MIB, 900_000)) == 1


def test_a_time_a_little_below_the_floor_is_a_remark():
    """A memory that is faster than it says is no cheat."""
    assert "may be faster than it says" in lines(500_000, 550 * MIB, 900_000)[1]
    assert len(lines(523_000, 550 * MIB, 900_000)) == 1


def test_the_software_gpu_has_bytes_and_instructions():
    floor = find_floor(capture(region(1 << 40, 4096)), Peaks())
    work = Work(memory_instructions=48, read_size_bytes=8192, written_size_bytes=4096)
    timing = summarise([5], TimeSource.SOFTWARE_GPU, 192, work)
    update = {"floor": floor, "timing": timing, "impossible": None, "comparison": None}
    assert list(write_floor_lines(manifest_examples.replay().model_copy(update=update))) == [
        "captured memory: 8.00 KiB read, 4.00 KiB written",
        "floor: 4.00 KiB must be written; 48 of 192 wave instructions (25 %) access memory",
    ]


def test_a_dispatch_that_changed_nothing_has_no_floor():
    floor = find_floor(capture(region(1 << 40, 4096)), Peaks()).model_copy(update={"changed_size_bytes": 0})
    work = Work(memory_instructions=48, read_size_bytes=8192, written_size_bytes=0)
    timing = summarise([5], TimeSource.SOFTWARE_GPU, 192, work)
    update = {"floor": floor, "timing": timing, "impossible": None, "comparison": None}
    (_, line) = write_floor_lines(manifest_examples.replay().model_copy(update=update))
    assert line == (
        "floor: none is known, because the captured dispatch changed no memory that only it writes; "
        "48 of 192 wave instructions "
        "(25 %) access memory"
    )


def test_an_impossible_time_is_said_in_the_place_of_times():
    update = {"impossible": "impossible: 1 µs, but", "timing": None, "comparison": None}
    first, then = write_floor_lines(manifest_examples.replay().model_copy(update=update))
    assert first == "impossible: 1 µs, but, so no times are shown"
    assert then.startswith("  next: ")
