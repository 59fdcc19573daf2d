"""The agent skill: every command of it runs, in order, and gives what the text says of it."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

SKILL = Path(__file__).parents[3] / "docs/skills/kernel-edit-loop/SKILL.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SLOW = "    result[row] += matrix[row * shape.columns + column] * vector[column];"
FAST = "    sum += matrix[row * shape.columns + column] * vector[column];\n  result[row] = sum;"


def sections() -> dict[str, list[tuple[str, str]]]:
    """Heading: its blocks, as (language, text)."""
    parts = SKILL.read_text().split("\n## ")
    return {part.partition("\n")[0]: BLOCK.findall(part) for part in parts[1:]}


def test_the_skill_says_when_to_use_it():
    head = SKILL.read_text().split("---\n")[1]
    assert "name: kernel-edit-loop" in head
    assert "description:" in head
    assert {language for blocks in sections().values() for language, _ in blocks} == {"sh", "python"}


@pytest.fixture
def agent(shell, application):
    shell.variables |= {"APP": f"{application}/demo 20", "SRC": str(application), "KERNEL": "demo::add_rows"}
    return shell


def test_each_command_of_the_skill_runs(agent):
    def load(name: str):
        return json.loads((agent.folder / name).read_text())

    project = agent.folder / "project"
    for heading, blocks in sections().items():
        for index, (language, text) in enumerate(blocks):
            if heading.startswith("5.") and index == 0:
                file = project / "kernel_variant.cpp"
                source = file.read_text().replace(
                    "  for (int col", "  float sum = result[row];\n  for (int col"
                )
                assert SLOW in source
                file.write_text(source.replace(SLOW, FAST))
            python = [sys.executable, "-P", "-c", text]
            done = agent.run(python) if language == "python" else agent(text)
            if heading.startswith("4."):
                assert "Result: PASS  (byte-exact" in done.out
            if heading.startswith("7."):
                assert "+  float sum = result[row];" in done.out
                assert "validation" in done.out
            if heading.startswith("From Python"):
                assert done.out.splitlines()[-1].isdigit()
    assert load("profile.json")["kernels"][0]["percentage"] > 0
    assert load("extract.json")["passed"] is True
    assert load("extract.json")["can_recompile"] is True
    assert load("verdict.json")["passed"] is True
    assert load("numeric.json")["mode"] == "numeric"
    run = load("run.json")
    assert run["exit_code"] == 0
    assert run["kernels"][0]["dispatches"] > 0
    compared = load("compare.json")
    assert compared["timing"]["source"] == "software_gpu"
    assert compared["timing"]["instructions"] < compared["comparison"]["baseline"]["instructions"]
    assert {"ratio", "ratio_p05", "ratio_p95"} <= compared["comparison"].keys()


def test_a_wrong_edit_ends_with_1_and_names_the_place(agent, project):
    file = project / "kernel_variant.cpp"
    file.write_text(file.read_text().replace(SLOW, f"    if (row != 77) {SLOW.strip()}"))
    agent("make -s -C project recompile")
    verdict = json.loads(agent("kerncap validate project --json", code=1).out)
    assert verdict["passed"] is False
    assert any(
        re.search(r"worst at 0x[0-9a-f]+: \S+ instead of \S+", line) for line in verdict["region_lines"]
    )
