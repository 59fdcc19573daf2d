"""What the documented commands print, to the letter, and the types of their JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path

import manifest_examples
import pytest
from compatibility_page import assert_types, code, rows

import kerncap
from kerncap_stages.compat import lines
from kerncap_stages.compat.conversion import make_validation_result
from kerncap_stages.compat.statistics import make_profile_object
from kerncap_stages.manifests.replay import ReplayOutcome
from kerncap_stages.manifests.validation import Mode, Tolerance


@pytest.mark.parametrize(
    ("files", "ptxas", "named"),
    [
        (["kernel_variant.cpp", "vfs.yaml"], None, ("kernel_variant.cpp", "optimized.hsaco")),
        (["kernel_variant.s"], None, ("kernel_variant.s", "optimized.hsaco")),
        (["kernel_variant.py"], None, ("kernel_variant.py", "candidate.hsaco (CUDA: candidate.cubin)")),
        (["kernel_variant.cu"], None, ("kernel_variant.cu", "optimized.cubin")),
        (["kernel_variant.cu", "vfs.yaml"], "/bin/ptxas", ("kernel_variant.cu", "optimized.cubin")),
        (["kernel_variant.cu", "vfs.yaml"], None, ("kernel_variant.cu", "optimized.ptx")),
    ],
    ids=["hip", "assembly", "triton", "nvcc", "clang", "clang without ptxas"],
)
def test_the_edited_file_and_what_is_built_are_those_of_the_project(files, ptxas, named, monkeypatch):
    monkeypatch.setattr(lines, "find_cuda_tool", lambda _name: ptxas)
    assert lines.name_edited_and_built([f"/somewhere/{name}" for name in files]) == named


def printed_lines() -> list[str]:
    """Every line that scripts look for, made from example manifests."""
    replay, validation = manifest_examples.replay(), manifest_examples.validation()
    times = {"mean_ns": 12_345.6, "min_ns": 9_000, "max_ns": 20_001_000}
    replay = replay.model_copy(update={"timing": replay.timing.model_copy(update=times)})
    (bad,) = validation.regions
    good = bad.model_copy(update={"passed": True, "base_address": 4096, "max_absolute_error": 0.5})
    crashed = replay.model_copy(
        update={"outcome": ReplayOutcome.CRASHED, "explanation": "x", "exit_signal": 11, "timing": None}
    )
    made = [*lines.replay_lines(replay, 3), *lines.replay_lines(crashed, 3)]
    digest = manifest_examples.digest("validation")
    for mode in Mode:
        bounds = Tolerance(absolute=1e-3) if mode is Mode.NUMERIC else None
        for passed, regions in ((True, (good,)), (False, (good, bad))):
            changes = {"mode": mode, "passed": passed, "regions": regions, "tolerance": bounds}
            verdict = validation.model_copy(update=changes)
            made.append(make_validation_result([verdict], [digest], ["k"], []).result_line)
    return [*made, lines.NO_COMPILE_COMMAND]


def test_result_lines_are_those_of_the_page():
    number = r"(\d[\d.]*(e[-+]\d+)?|inf|nan)"
    patterns = [re.compile(re.escape(code(row[0])[0]).replace("…", number)) for row in rows("Result lines")]
    made = printed_lines()
    for line in made:
        assert any(pattern.fullmatch(line) for pattern in patterns), line
    for pattern in patterns:
        assert any(pattern.fullmatch(line) for line in made), pattern.pattern


def test_result_lines_to_the_letter():
    assert printed_lines()[:5] == [
        "Average GPU time: 12.346 us",
        "Min: 9.000 us",
        "Max: 20001.000 us",
        "Result: PASS  replayed 3 iteration(s) OK (avg = 12.35 us, min = 9.00, max = 20001.00)",
        "Result: FAIL  (replay exited with code 139)",
    ]
    assert "Result: PASS  (smoke)" in printed_lines()
    assert "Result: FAIL  (byte-exact, 1 of 2 regions identical, 1 differ)" in printed_lines()
    assert "Result: PASS  (numeric, max_error = 5.00e-01, atol = 0.001)" in printed_lines()


@pytest.mark.parametrize(
    ("result", "line"),
    [
        (
            kerncap.ValidationResult(
                False, [], 12.5, "numeric", outputs_total=3, outputs_passed=2, atol=1e-6
            ),
            "Result: FAIL  (numeric, 1 of 3 outputs differ, max_error = 1.25e+01, atol = 1e-06)",
        ),
        (
            kerncap.ValidationResult(True, [], 1.23456e-8, "numeric", outputs_total=1, outputs_passed=1),
            "Result: PASS  (numeric, max_error = 1.23e-08, atol = 0)",
        ),
        (
            kerncap.ValidationResult(False, [], mode="byte-exact", regions_total=20, regions_identical=17),
            "Result: FAIL  (byte-exact, 17 of 20 regions identical, 3 differ)",
        ),
        (kerncap.ValidationResult(False, []), "Result: FAIL  (smoke)"),
    ],
)
def test_a_result_that_somebody_constructs_has_its_line(result, line):
    assert result.result_line == line


@pytest.mark.parametrize("row", rows("JSON"), ids=lambda row: row[0])
def test_json_has_the_types_of_the_page(row):
    stat = kerncap.KernelStat("k", 1, 2, 2, 100.0)
    capture = manifest_examples.capture()
    made = {
        "kerncap profile --output FILE": make_profile_object(["./my app", "-n", "3"], [stat]),
        "kerncap replay --json": lines.replay_json(manifest_examples.replay(), capture, Path("k.hsaco")),
    }[code(row[0])[0]]
    assert_types(json.loads(json.dumps(made)), row[2])


def test_json_to_the_letter():
    assert make_profile_object(["./my app", "-n", "3"], [])["cmd"] == "'./my app' -n 3"
    capture, replay = manifest_examples.capture(), manifest_examples.replay()
    report = lines.replay_json(replay, capture, Path("k.hsaco"))
    assert report["timing"]["unit"] == "microseconds"
    assert report["kernel"]["hsaco_path"] == "k.hsaco"
    untimed = replay.model_copy(update={"timing": None})
    assert "timing" not in lines.replay_json(untimed, capture, Path("k.hsaco"))
