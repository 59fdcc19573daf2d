"""A verdict can be asked for on one capture only."""

from __future__ import annotations


def test_a_verdict_on_another_capture_is_refused(on, variant):
    stages, digest = on("by_symbol", 0)
    other = "0" * 64
    words = ["--variant", variant("right"), "--quick"]
    stages.run("validate", digest, *words, "--expect-capture", other, "--expect-capture", digest).must(0)
    said = stages.run("validate", digest, *words, "--expect-capture", other).must(6).err
    assert f"is of capture {digest}, which --expect-capture does not name" in said
    assert f"it names {other}" in said
    assert f"give --expect-capture {digest};" in said
    assert f"`kc-generate {other[:12]} --output FOLDER`" in said
    assert "Result" not in said


def test_what_is_no_digest_is_refused(on, variant):
    stages, digest = on("by_symbol", 0)
    said = (
        stages.run("validate", digest, "--variant", variant("right"), "--expect-capture", digest[:12])
        .must(2)
        .err
    )
    assert "not a digest of 64 hexadecimal digits" in said
    assert f"next: the capture that begins so is {digest}" in said


def test_all_inputs_that_are_missing_are_named_at_once(on, variant):
    stages, digest = on("by_symbol", 0)
    file = stages.folder / "a file"
    file.write_text("")
    words = (
        "--variant",
        "no.hsaco",
        "--held-out",
        "none",
        "--expect-capture",
        "one",
        "--expect-capture",
        "two",
    )
    said = stages.run("validate", "gone", *words, "--reference", "no.py", "--report", file).must(3).err
    assert "7 inputs cannot be used" in said
    for one in ("'gone'", "no.hsaco", "--held-out none", "capture one", "capture two", "no.py", "a file"):
        assert sum(one in line for line in said.splitlines()) == 1, one
    alone = stages.run("validate", digest, "--variant", variant("right"), "--report", file).must(2).err
    assert "a file is not a folder\n  next: give --report a new" in alone
