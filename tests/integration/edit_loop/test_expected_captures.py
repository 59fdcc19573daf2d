"""A verdict can be asked for on one capture only."""

from __future__ import annotations


def test_a_verdict_on_another_capture_is_refused(on, variant):
    stages, digest = on("by_symbol", 0)
    other = "0" * 64
    words = ["--variant", variant("right"), "--quick"]
    stages.run("validate", digest, *words, "--expect-capture", other, "--expect-capture", digest).must(0)
    said = stages.run("validate", digest, *words, "--expect-capture", other).must(6).err
    assert f"is of capture {digest}, which --expect-capture does not name" in said
    assert "Result" not in said


def test_what_is_no_digest_is_refused(on, variant):
    stages, digest = on("by_symbol", 0)
    said = (
        stages.run("validate", digest, "--variant", variant("right"), "--expect-capture", digest[:12])
        .must(2)
        .err
    )
    assert "not a digest of 64 hexadecimal digits" in said
