"""Times are what they are said to be: of kernels that run for a time that is known."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from device_programs import link_device_code
from nvidia_gpu import architecture
from programs import Build, Program, compile_once

HERE = Path(__file__).parent

EXPECTED_NS = {"takes_200_us": 200_000, "takes_1000_us": 1_000_000}
# The clock that the kernels look at ticks every microsecond on some GPUs.
SLACK = 0.03


def median_ns(kc, capture, *options):
    told = json.loads(kc.ok("kc-replay", capture, "--iterations", 20, "--warmup", 5, "--json", *options).out)
    return told["timing"]["median_ns"]


def profiled(kc, *program):
    profile = kc.show(kc.ok("kc-profile", "--", *program).digest)
    return {kernel["name"].split("(")[0]: kernel for kernel in profile["kernels"]}


@pytest.mark.alone  # a GPU that is shared gives each program slices of its time
def test_a_profile_gives_the_time_of_each_kernel(kc, built):
    found = profiled(kc, built["known_times"])
    for name, expected_ns in EXPECTED_NS.items():
        assert found[name]["mean_ns"] == pytest.approx(expected_ns, rel=SLACK)


@pytest.mark.parametrize("ends", [(), ("reset",), ("unwaited",)])
def test_a_profile_has_all_kernels_of_a_program_that_gives_its_context_up(kc, built, ends):
    found = profiled(kc, built["known_times"], *ends)
    assert {name: kernel["calls"] for name, kernel in found.items()} == {
        "takes_200_us": 20,
        "takes_1000_us": 10,
    }


@pytest.mark.parametrize("kernel", EXPECTED_NS)
def test_a_replay_gives_the_time_of_its_kernel(kc, built, kernel):
    capture = kc.capture(kernel, built["known_times"])
    assert median_ns(kc, capture) == pytest.approx(EXPECTED_NS[kernel], rel=SLACK)


@pytest.mark.parametrize(("variant", "variant_ns"), [("shorter", 100_000), ("longer", 400_000)])
def test_a_comparison_gives_each_of_the_two_its_own_times(kc, built, variant, variant_ns):
    """They run in turn, behind warm-ups, and the device tells all times in one list."""
    capture = kc.capture("takes_200_us", built["known_times"])
    options = ("--compare", built[f"{variant}.cubin"], "--iterations", 9, "--warmup", 3, "--json")
    told = json.loads(kc.ok("kc-replay", capture, *options).out)
    baseline_ns = EXPECTED_NS["takes_200_us"]
    # Medians: a GPU that is shared gives each program slices of its time.
    assert told["timing"]["median_ns"] == pytest.approx(variant_ns, rel=SLACK)
    assert told["comparison"]["baseline"]["median_ns"] == pytest.approx(baseline_ns, rel=SLACK)
    assert told["comparison"]["ratio"] == pytest.approx(variant_ns / baseline_ns, rel=SLACK)


@pytest.mark.parametrize("stream", ["0", "cudaStreamTailLaunch", "cudaStreamFireAndForget"])
def test_what_a_kernel_launches_is_waited_for_and_timed(kc, built, stream):
    """The variant's own kernel ends at once; the one that it launches writes, 200 us later."""
    capture = kc.capture("takes_200_us", built["known_times"])
    variant = kc.folder / "behind.cubin"
    link_device_code("spins_behind", variant, f"-DSTREAM={stream}")
    kc.ok("kc-validate", capture, "--variant", variant)
    told = json.loads(kc.ok("kc-replay", capture, "--compare", variant, "--iterations", 9, "--json").out)
    assert 200_000 < told["timing"]["median_ns"] < 400_000


def test_what_a_kernel_launches_in_some_runs_only_is_timed(kc, built):
    """In one of four runs the variant does the work itself."""
    capture = kc.capture("takes_200_us", built["known_times"])
    variant = kc.folder / "alternates.cubin"
    link_device_code("spins_behind", variant, "-DSTREAM=0", "-DALTERNATES")
    told = json.loads(kc.ok("kc-replay", capture, "--compare", variant, "--iterations", 40, "--json").out)
    assert 200_000 < told["timing"]["median_ns"] < 400_000


@pytest.mark.usefixtures("much_memory")
@pytest.mark.parametrize(
    "defines",
    [(), ("WORDS=1024",), ("WORDS=20000",), ("WAY=1", "WORDS=32")],
    ids=["256 bytes", "4 KiB", "80 KB", "recursion"],
)
def test_a_timed_run_finds_no_results_in_local_memory(kc, built, defines):
    """Right in any case, the variant takes the time of the captured kernel only where it finds no mark."""
    capture = kc.capture("takes_200_us", built["known_times"])
    source = Program(HERE / "variants/remembers.cu")
    variant = compile_once(Build(source, architecture(), "O2", defines=defines, device_only=True))
    told = json.loads(kc.ok("kc-replay", capture, "--compare", variant, "--iterations", 20, "--json").out)
    assert 199_000 < told["timing"]["median_ns"] < 2_000_000
    assert told["timing"]["min_ns"] > 199_000


@pytest.mark.alone
def test_an_evaluation_ranks_variants_by_their_times(kc, built):
    capture = kc.capture("takes_200_us", built["known_times"])
    variants = [built[f"{name}.cubin"] for name in ("longer", "shorter")]
    told = json.loads(kc.ok("kc-evaluate", capture, *variants, "--quick", "--runs", 9, "--json").out)
    assert [each["rank"] for each in told["variants"]] == [2, 1]
    assert [each["ratio"] for each in told["variants"]] == pytest.approx([2.0, 0.5], rel=SLACK)
    longer = told["variants"][0]["cases"][0]["time"]
    assert longer["variant_ns"] == pytest.approx(400_000, rel=SLACK)
    assert longer["captured_ns"] == pytest.approx(200_000, rel=SLACK)


@pytest.mark.parametrize("program", ["cached_reads", "persisting_reads"])
def test_a_kernel_is_slower_behind_a_flushed_cache(kc, built, program):
    """On an H200 3.3 and 7.4 us; by less where the cache is too small for what it reads.

    What a run wanted to persist in the cache does not outlive it.
    """
    capture = kc.capture("sum", built[program])
    assert median_ns(kc, capture, "--flush-cache") > 1.3 * median_ns(kc, capture)
