"""Kernel Tuner's strategies with kerncap's verdicts, by the real package of PyPI."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from triton_package import install_once

pytestmark = pytest.mark.slow

# What these strategies import; all that Kernel Tuner can use takes 110 MB.
PACKAGES = {"kernel-tuner": "1.5.0", "python-constraint2": "2.9.0", "xmltodict": "1.0.4"}

PROGRAM = """
import json, sys
from kerncap_stages.tune.kernel_tuner import tune_project

results, env = tune_project(
    "project", {"TILE": [16, 32, 64], "UNROLL": [1, 2, 8]}, restrictions=["TILE * UNROLL <= 256"], quiet=True,
    metrics={"speedup": "1 / ratio"}, **json.loads(sys.argv[1]),
)
print(json.dumps([[{name: str(value) if name == "__error__" else value for name, value in each.items()}
                   for each in results], env["best_config"]], default=str))
"""


def call(stages, **options):
    folders = [str(install_once(name, version)) for name, version in PACKAGES.items()]
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(options)],
        env={**stages.environment, "PYTHONPATH": os.pathsep.join(folders)}, cwd=stages.folder,
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def tune(stages, **options):
    done = call(stages, **options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    "options", [{}, {"strategy": "random_sample", "strategy_options": {"max_fevals": 5}}]
)
def test_wrong_ones_are_errors_and_the_best_is_right(stages, options):
    results, best = tune(stages, **options)
    found = {(each["TILE"], each["UNROLL"]): each for each in results}
    if not options:
        assert set(found) == {(16, 1), (16, 2), (16, 8), (32, 1), (32, 2), (32, 8), (64, 1), (64, 2)}
    for (tile, unroll), each in found.items():
        expected = "CompilationFailedConfig" if unroll == 8 else "RuntimeFailedConfig" if tile == 64 else None
        assert each.get("__error__") == expected
        if expected is None:
            assert each["instructions"] > 0
            assert "time" not in each  # the software GPU has none
            assert each["speedup"] == pytest.approx(1 / each["ratio"])
    right = [each for each in results if "__error__" not in each]
    if right:
        assert best["ratio"] == min(each["ratio"] for each in right)
    made = json.loads(
        stages.run("show", "@evaluation", "--json", "--store", "project/capture/store").must().out
    )
    assert len(made["variants"]) == len(results)


def test_a_space_of_the_project_says_where_values_go(stages):
    space = "[define]\nTILE = [16]\nUNROLL = [1]\n[values]\nBLOCK = [16]\n[launch]\nblock = 'BLOCK'\n"
    (stages.folder / "project/tune.toml").write_text(space)
    done = call(stages)
    assert "has the parameters TILE, UNROLL, BLOCK" in done.stderr
