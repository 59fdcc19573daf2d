"""Kernels that fault or never end: what was there before them can be kept, and replayed alone."""

from __future__ import annotations

import struct

import pytest

from kerncap_stages.errors import ExitCode
from kerncap_stages.store import Store
from kerncap_stages.store.check import check_store


@pytest.fixture
def faulting(stages, program):
    """The capture of a kernel that faults in its program, and what kc-capture said."""
    done = stages.run("capture", "--kernel", "target(", "--no-post", "--", program("faulting"), "fault")
    (digest,) = done.must().digests
    return digest, done.err


def test_nothing_is_kept_where_a_state_after_the_kernel_is_wanted(stages, program):
    done = stages.run("capture", "--kernel", "target(", "--", program("faulting"), "fault")
    assert done.code in (ExitCode.PROGRAM, ExitCode.DEVICE), done.err
    assert "--no-post" in done.err
    assert Store.open(stages.store).list_artifacts() == []


def test_the_state_before_a_kernel_that_faults_is_kept(stages, faulting):
    digest, said = faulting
    assert "the kernel did not end" in said
    capture = stages.show(digest)
    assert capture["dispatch"]["duration_ns"] is None
    assert all(region["post"] is None for region in capture["regions"])
    values = struct.pack("<64i", *range(5, 69))
    assert any(values in stages.memory(region["pre"]) for region in capture["regions"] if region["pre"])
    assert check_store(Store.open(stages.store)).ok


def test_it_faults_alone_too_and_a_mended_one_does_not(stages, faulting, variant):
    digest, _ = faulting
    failed = stages.replay(digest)
    failed.must(ExitCode.DEVICE)
    assert "Result: FAIL  (smoke)" in stages.run("validate", digest).must(ExitCode.ANSWER_IS_NO).err
    out, variant_file = stages.folder / "out", variant("faulting", "MENDED")
    stages.replay(digest, "--variant", variant_file, "--dump-output", out).must()
    # Nothing tells what it should write: one that does nothing would pass, too.
    judged = stages.run("validate", digest, "--variant", variant_file).must(ExitCode.ANSWER_IS_NO)
    assert "so the variant's expected outputs are not known" in judged.err
    values = struct.pack("<64i", *(2 * value for value in range(5, 69)))
    assert any(values in path.read_bytes() for path in out.rglob("*") if path.is_file())


def test_the_state_before_a_kernel_that_never_ends_is_kept(stages, program):
    words = ("--kernel", "target(", "--no-post", "--wait", 2, "--stop-after")
    done = stages.run("capture", *words, "--", program("faulting"), "hang")
    (digest,) = done.must().digests
    assert "the kernel did not end" in done.err
    assert stages.show(digest)["dispatch"]["duration_ns"] is None
