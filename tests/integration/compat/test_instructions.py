"""On the software GPU work is counted: the one measure of speed that means something there."""

from __future__ import annotations

import json

SLOW = "    result[row] += matrix[row * shape.columns + column] * vector[column];"
FAST = "    sum += matrix[row * shape.columns + column] * vector[column];\n  result[row] = sum;"


def manifest(shell, digest: str) -> dict:
    return json.loads(shell(f"kc-show --store project/capture/store --json {digest}").out)


def test_a_comparison_gives_the_ratio_of_instructions(shell, project):
    file = project / "kernel_variant.cpp"
    text = file.read_text().replace("  for (int column", "  float sum = result[row];\n  for (int column")
    file.write_text(text.replace(SLOW, FAST))
    shell("make -s -C project recompile")
    assert shell("kerncap validate project").code == 0
    made = [
        shell(f"kc-replay project --compare project/optimized.hsaco --warmup {warmup} --iterations 2")
        for warmup in (0, 2)
    ]
    counts = []
    for done in made:
        replay = manifest(shell, done.out.strip())
        before, after = replay["comparison"]["baseline"]["instructions"], replay["timing"]["instructions"]
        assert f"wave instructions, variant / baseline: {after / before:.3f}" in done.err
        assert "not a ratio of times" in done.err
        counts.append((before, after))
    assert counts[0] == counts[1]
    assert counts[0][1] < counts[0][0]
    for flags, expected in (("", counts[0][0]), ("--hsaco optimized.hsaco", counts[0][1])):
        report = json.loads(shell(f"kerncap replay project --json {flags}").out)
        assert report["timing"]["instructions"] == expected


def test_a_count_that_the_user_asked_for_is_the_users(shell, project):
    shell.variables["KERNCAP_SOFTGPU_COUNT"] = str(shell.folder / "mine")
    report = json.loads(shell(f"kerncap replay {project} --json").out)
    assert report["timing"]["instructions"] is None
    assert "add_rows" in (shell.folder / "mine").read_text()
