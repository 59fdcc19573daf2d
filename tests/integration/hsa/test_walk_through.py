"""From a running program to a replay of one of its kernels, through the executables."""

from __future__ import annotations

import subprocess

import pytest
from stages import executable


@pytest.mark.parametrize("target", ["gfx90a", "gfx942"])
def test_profile_capture_and_replay_chain_by_pipes(stages, program, target):
    stages.target = target
    app = program("vector_add", target)
    words = [executable("profile"), executable("capture"), executable("replay")]
    words[0] += ["--", str(app)]
    processes: list[subprocess.Popen[str]] = []
    for command in words:
        stdin = processes[-1].stdout if processes else subprocess.DEVNULL
        processes.append(
            subprocess.Popen(
                command,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env=stages.environment,
                cwd=stages.folder,
            )
        )
    out, err = processes[-1].communicate(timeout=240)
    errors = [err, *(process.communicate()[1] for process in processes[:-1])]
    assert [process.wait() for process in processes] == [0, 0, 0], "\n".join(errors)
    replay = stages.show(out.strip())
    assert replay["kind"] == "replay"
    assert replay["matches_golden"] is True
    assert replay["timing"]["source"] == "software_gpu"


def test_replay_from_the_pre_state_gives_the_post_state_every_time(stages, program):
    (digest,) = stages.capture("add(", program("vector_add"))
    capture = stages.show(digest)
    assert capture["kernel"]["mangled_name"] == "_Z3addPKfS0_Pfi"
    assert capture["launch"]["grid_blocks"][0] * capture["launch"]["block_work_items"][0] >= 10000
    written = [region for region in capture["regions"] if region["written_size_bytes"]]
    assert len(written) == 1
    assert written[0]["kind"] == "device_coarse"
    assert written[0]["pre"] != written[0]["post"]
    for _ in range(3):
        replay = stages.replay(digest, "--iterations", 3).must().manifest
        assert replay["matches_golden"] is True
        assert len(replay["timing"]["samples_ns"]) == 3
