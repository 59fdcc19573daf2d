"""make bench names the code object that it times, and the newest verdict on it."""

from __future__ import annotations

import re

import pytest
from made_in_projects import make
from programs import SOURCES, Build, Program, compile_once

FAILED = re.compile(r"^note: the newest verdict on this code is FAIL: (\w{12}); `kc-show \1` shows why", re.M)
HIDDEN = re.compile(r"PASS \(captured state only\), and an earlier one is FAIL: (\w{12}); `kc-show \1`")
UNKNOWN = "note: this store has no verdict on this code: `kc-validate` makes one\n"
SAME = "not the same bytes as after the captured dispatch"


@pytest.fixture
def bench(stages):
    """Edit the one line of the kernel, judge it, and return the verdict's digest and what make bench says."""
    app = compile_once(Build(Program(SOURCES / "edit_loop/three_sizes.hip"), "gfx90a", "O3"))
    (capture,) = stages.capture("halve", app)
    stages.run("generate", capture, "--source-dir", SOURCES / "edit_loop", "--output", "project").must()
    edited = stages.folder / "project/kernel_variant.cpp"
    before = edited.read_text()
    assert "in[i] * 0.5f;" in before

    def time_variant(value, *judged, code=0):
        edited.write_text(before.replace("in[i] * 0.5f;", f"{value};"))
        assert make(stages, edited.parent, "recompile").returncode == 0
        digests = stages.run("validate", "project", *judged).must(code).digests if judged else []
        done = make(stages, edited.parent, "bench")
        assert done.returncode == 0, done.stderr
        assert "variant / baseline" in done.stderr
        return digests, done.stderr

    return time_variant


def test_code_with_a_failed_verdict_is_not_timed_in_silence(bench):
    # The captured values are not negative.
    (verdict,), said = bench("in[i] < 0 ? 0 : in[i] * 0.5f", "--seed", 1, code=1)
    assert FAILED.findall(said) == [verdict[:12]]
    _, said = bench("in[i] < 0 ? 0 : in[i] * 0.5f", "--quick")
    assert HIDDEN.findall(said) == [verdict[:12]]
    _, said = bench("in[i] / 2", "--seed", 1)
    assert "verdict" not in said
    _, said = bench("in[i] * 0.25f + in[i] * 0.25f")
    assert UNKNOWN in said


def test_results_within_the_bounds_of_the_verdict_are_not_called_others(bench):
    (verdict,), said = bench("in[i] * 0.50001f", "--rtol", 1e-3)
    assert f"within the bounds of verdict {verdict[:12]}, though {SAME}:" in said
    assert "NOT the same" not in said
    assert not FAILED.search(said)
    (failed,), said = bench("in[i] < 0 ? 0 : in[i] * 0.50001f", "--rtol", 1e-3, "--seed", 1, code=1)
    assert f"within the bounds of verdict {failed[:12]}, which is FAIL, though {SAME}:" in said


def test_both_commands_name_the_code_object_that_they_chose(stages, bench):
    _, said = bench("in[i] / 2")
    assert "note: timing optimized.hsaco\n" in said
    judge = ("validate", "project", "--quick")
    assert "note: judging project/optimized.hsaco\n" in stages.run(*judge).must().err
    project = stages.folder / "project"
    assert "note: judging" not in stages.run(*judge, "--variant", project / "optimized.hsaco").must().err
    (project / "candidate.hsaco").write_bytes((project / "optimized.hsaco").read_bytes())
    _, said = bench("in[i] * 0.5f + 0.0f")
    assert "timing optimized.hsaco; `kc-validate .` judges candidate.hsaco, which is another" in said
    said = stages.run(*judge).must().err
    assert "judging project/candidate.hsaco; `make bench` times optimized.hsaco, which is another" in said
