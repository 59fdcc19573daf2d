"""The options of kc-replay, and what it says when a variant does not do what it should."""

from __future__ import annotations

import os

import pytest
from programs import SOURCES, Build, Program, compile_once

from kerncap_stages.digest import Digest
from kerncap_stages.errors import ExitCode
from kerncap_stages.machine.instruction_counts import read_counts
from kerncap_stages.machine.softgpu import fall_back
from kerncap_stages.manifests import load_as
from kerncap_stages.manifests.capture import Capture
from kerncap_stages.manifests.replay import ReplayOutcome
from kerncap_stages.replay.ahead import ReplayersAhead
from kerncap_stages.replay.runner import ReplayRequest, replay_capture
from kerncap_stages.store import Store


@pytest.fixture
def scaled(stages, program):
    """A captured dispatch of a simple kernel, and the stages."""
    (digest,) = stages.capture("scale_into", program("idempotent"))
    return digest


@pytest.mark.parametrize("compression", ["--offload-compress", "--no-offload-compress"])
def test_what_genco_makes_for_several_targets_is_a_variant(stages, scaled, compression):
    """HIP's documented way to a code object gives a bundle: what is in it for the captured GPU is run."""
    source = Program(SOURCES / "replay/idempotent.hip")
    flags = ("--genco", "--offload-arch=gfx942", compression)
    several = compile_once(Build(source, "gfx90a", "O3", flags=flags))
    replay = stages.replay(scaled, "--variant", several).must().manifest
    assert replay["matches_golden"] is True
    stored = Digest(replay["variant"]["payload"].partition(":")[2])
    assert Store.open(stages.store).get(stored)[:4] == b"\x7fELF"
    assert stages.run("validate", scaled, "--quick", "--variant", several, "--json").must().manifest["passed"]
    other = compile_once(Build(source, "gfx942", "O3", flags=("--genco", compression)))
    refused = stages.replay(scaled, "--variant", other).must(ExitCode.REFUSED)
    assert "no code object for gfx90a" in refused.err


def test_caches_are_driven_empty_before_each_run(stages, scaled, tmp_path):
    def symbols(*options):
        counts = tmp_path / f"counts{len(options)}"
        stages.variables["KERNCAP_SOFTGPU_COUNT"] = str(counts)
        stages.replay(scaled, "--iterations", 2, *options).must()
        return [count.symbol for count in read_counts(counts)]

    kernel = stages.show(scaled)["kernel"]["mangled_name"]
    assert symbols().count(kernel) == 2
    *_, flush, first, again, second = symbols("--flush-cache")
    assert flush == again != kernel
    assert first == second == kernel


def test_a_variant_under_either_name_of_the_option(stages, scaled, variant):
    for option in ("--variant", "--hsaco"):
        replay = (
            stages.replay(scaled, option, variant("idempotent", "NOTHING"))
            .must(ExitCode.ANSWER_IS_NO)
            .manifest
        )
        assert replay["matches_golden"] is False
        assert replay["variant"]["isa"].endswith("gfx90a") or "gfx90a" in replay["variant"]["isa"]


def test_without_an_argument_the_latest_capture_is_replayed_but_not_after_an_empty_pipe(stages, scaled):
    done = stages.run("replay", "--json").must()  # standard input is /dev/null
    assert done.manifest["capture"] == f"manifest:{scaled}"
    assert "using the latest capture (@capture)" in done.err
    empty = stages.run("replay", stdin="").must(ExitCode.ARTIFACT)
    assert "the stage before this one failed" in empty.err


def test_variant_and_compare_exclude_each_other(stages, scaled, variant):
    nothing = variant("idempotent", "NOTHING")
    stages.replay(scaled, "--variant", nothing, "--compare", nothing).must(2)


@pytest.mark.parametrize("words", [("--grid", "0"), ("--block", "1,2,3,4"), ("--grid", "many")])
def test_a_shape_that_is_none_is_wrong_usage(stages, scaled, words):
    stages.replay(scaled, *words).must(2)


def test_dynamic_lds_may_be_changed(stages, program):
    """LDS is handed out in blocks of 512 bytes; beyond the last one reads give 0, as on hardware."""
    (digest,) = stages.capture("reverse", program("dynamic_lds"), options=("--dispatch", 2))
    captured, fixed = stages.show(digest)["launch"]["dynamic_lds_bytes"], 16
    assert captured == 16_000
    one_block_less = (captured + fixed) // 512 * 512 - fixed
    enough, too_little = (2 * captured, one_block_less + 1), (one_block_less, 0)
    for lds in (*enough, *too_little):
        done = stages.replay(digest, "--lds", lds)
        replay = done.must(0 if lds in enough else ExitCode.ANSWER_IS_NO).manifest
        assert replay["plan"]["overrides"]["dynamic_lds_bytes"] == lds
        assert replay["matches_golden"] is (lds in enough)
    stages.variables["KERNCAP_SOFTGPU_LDS"] = "stop"
    assert stages.replay(digest).must().manifest["matches_golden"] is True
    stopped = stages.replay(digest, "--lds", one_block_less).must(ExitCode.DEVICE)
    assert stopped.manifest["outcome"] == "faulted"


def test_the_launch_through_hip_gives_the_same(stages, scaled, program, variant):
    done = stages.replay(scaled, "--hip-launch", "--iterations", 3).must()
    assert done.manifest["matches_golden"] is True
    assert done.manifest["plan"]["hip_launch"] is True
    assert all(sample > 0 for sample in done.manifest["timing"]["samples_ns"])
    (digest,) = stages.capture("reach", program("named_and_pointed"), options=("--dispatch", 1))
    assert stages.replay(digest, "--hip-launch").must().manifest["matches_golden"] is True
    nothing = variant("idempotent", "NOTHING")
    changed = stages.replay(scaled, "--hip-launch", "--variant", nothing).must(ExitCode.ANSWER_IS_NO)
    assert changed.manifest["matches_golden"] is False


def test_a_gpu_that_is_not_there_is_refused(stages, scaled):
    done = stages.replay(scaled, "--device", 3).must(6)
    assert "GPU 3" in done.err


def test_another_gpu_of_the_same_kind_runs_it(stages, program):
    stages.gpus = 2
    (digest,) = stages.capture("scale_into", program("idempotent"))
    replay = stages.replay(digest, "--device", 1).must().manifest
    assert replay["matches_golden"] is True
    assert replay["plan"]["devices"] == [[0, 1]]


def test_a_variant_for_another_architecture_is_refused(stages, scaled, variant):
    done = stages.replay(scaled, "--variant", variant("idempotent", target="gfx942")).must(6)
    assert "gfx942" in done.err
    assert "gfx90a" in done.err


def test_a_capture_of_another_architecture_is_refused(stages, scaled):
    stages.target = "gfx942"
    done = stages.replay(scaled).must(6)
    assert "gfx942" in done.err


def test_a_variant_that_is_no_code_object(stages, scaled):
    done = stages.replay(scaled, "--variant", SOURCES / "hip/vector_add.hip").must(2)
    assert "vector_add.hip" in done.err
    stages.replay(scaled, "--variant", "/nowhere.co").must(2)


def test_a_variant_with_other_arguments_is_refused(stages, scaled, variant):
    done = stages.replay(scaled, "--variant", variant("wild_variants", "OTHER_ARGUMENTS")).must(6)
    assert "arguments" in done.err


def test_a_variant_that_touches_what_it_may_not_is_a_result(stages, scaled, variant):
    done = stages.replay(scaled, "--variant", variant("wild_variants", "FAULT")).must(4)
    assert done.manifest["outcome"] == "faulted"
    assert "0x123456789" in done.manifest["explanation"]


def test_a_fault_in_a_launch_through_hip_ends_the_replay_at_once(stages, scaled, variant):
    fault = variant("wild_variants", "FAULT")
    done = stages.replay(scaled, "--hip-launch", "--variant", fault, "--timeout", 100).must(4)
    assert done.manifest["outcome"] == "faulted"
    assert "0x123456789" in done.manifest["explanation"]


@pytest.mark.parametrize("way", [(), ("--hip-launch",)])
def test_a_null_pointer_in_scalar_registers_ends_the_replay_at_once(stages, scaled, variant, way):
    """As a kernel has it that enqueues others, whose list is not there in a replay."""
    fault = variant("wild_variants", "SCALAR_FAULT")
    done = stages.replay(scaled, *way, "--variant", fault, "--timeout", 100).must(4)
    assert done.manifest["outcome"] == "faulted"
    assert "accessed 0x28" in done.manifest["explanation"]


def test_variables_come_with_the_words_of_a_replay_that_was_started_before(stages, scaled, tmp_path):
    store = Store.open(stages.store, create=False)
    capture = load_as(store, store.resolve(scaled), Capture)
    environment = {**os.environ, **fall_back(os.environ, capture.device.architecture)}
    counts = tmp_path / "counts"
    request = ReplayRequest(compare=False, timed=False)
    with ReplayersAhead(0, environment) as replayers, pytest.MonkeyPatch.context() as patch:
        replayers.start(1)
        waiting = replayers._waiting[0].process
        patch.setenv("KERNCAP_SOFTGPU_COUNT", str(counts))
        result = replay_capture(store, capture, request, replayers)
    assert result.outcome is ReplayOutcome.COMPLETED
    assert waiting.returncode == 0
    assert [each.pid for each in read_counts(counts)] == [waiting.pid]
