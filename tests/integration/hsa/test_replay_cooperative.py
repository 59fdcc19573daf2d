"""Kernels whose work-groups all wait for each other."""

from __future__ import annotations

import pytest


@pytest.fixture
def rotated(stages, program):
    """A captured cooperative dispatch; its work-groups meet ten times."""
    (digest,) = stages.capture("rotate_sums", program("grid_sync"))
    assert stages.show(digest)["launch"]["is_cooperative"] is True
    return digest


@pytest.mark.parametrize("options", [(), ("--hip-launch",)])
def test_a_whole_grid_meets_again_in_each_run(stages, rotated, options):
    for _ in range(3):
        done = stages.replay(rotated, *options, "--iterations", 3, "--timeout", 60).must()
        assert done.manifest["matches_golden"] is True
        assert all(sample > 0 for sample in done.manifest["timing"]["samples_ns"])


def test_a_grid_of_another_size_meets_too(stages, rotated):
    """The barrier counts the work-groups of this launch, not those that were captured."""
    done = stages.replay(rotated, "--grid", 256, "--timeout", 60).must()
    assert done.manifest["outcome"] == "completed"
