"""Variants of a Triton kernel with other launches: num_warps, block size and grid."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from triton_package import PROGRAMS, judge

if TYPE_CHECKING:
    from pathlib import Path


def change(project: Path, **lines: str) -> None:
    """Replace the values of lines of reproducer.py: those of a constant, an option, or of the grid."""
    script = project / "reproducer.py"
    text = script.read_text()
    for name, value in lines.items():
        old = next(line for line in text.splitlines() if line.strip(" '").startswith(name))
        new = f"GRID = {value}" if name == "GRID" else f"    {name!r}: {value},"
        text = text.replace(old, new)
    script.write_text(text)


def test_warps_blocks_and_grid_are_a_variants_own(with_triton, tmp_path):
    stages, project = with_triton, tmp_path / "project"
    (digest,) = stages.capture("add_kernel", sys.executable, PROGRAMS / "kernels.py", "add")
    stages.run("generate", stages.run("locate", digest).must().digests[0], "-o", project).must()
    assert "launched as" not in judge(project, stages)

    change(project, num_warps="8")
    said = judge(project, stages)
    assert "launched as 4 x 1 x 1 blocks of 512 x 1 x 1" in said
    assert "Result: PASS" in said

    # Half of the work is left undone.
    change(project, BLOCK="128")
    assert "Result: FAIL" in judge(project, stages)
    change(project, GRID="(8, 1, 1)")
    said = judge(project, stages)
    assert "launched as 8 x 1 x 1 blocks of 512 x 1 x 1" in said
    assert "Result: PASS" in said

    timed = stages.run("replay", project, "--compare", project / "candidate.hsaco", "-n", 3).must()
    assert "the variant was launched as 8 x 1 x 1 blocks" in timed.err
    assert "variant / baseline" in timed.err
    program = (sys.executable, PROGRAMS / "kernels.py", "add")
    inside = stages.run("run", "--variant", project, "--", *program).must()
    assert "add_kernel: the variant ran in 1 dispatch of 1 process" in inside.err
    # Without its shape the variant is launched as the captured kernel was.
    (project / "candidate.shape.json").unlink()
    replayed = stages.run("validate", project)
    assert "Result: FAIL" in replayed.err
    shaped = stages.run("validate", project, "--grid-blocks", "8", "--block", "512")
    assert "Result: PASS" in shaped.must().err
