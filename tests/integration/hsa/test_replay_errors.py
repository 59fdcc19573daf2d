"""What kc-replay says to options and files that make no sense."""

from __future__ import annotations

import struct

import pytest

from kerncap_stages.errors import ExitCode

PT_LOAD = (1).to_bytes(4, "little")


def read_program_headers(elf):
    """Return where the program headers begin, the size of each in bytes, and their number."""
    (offset,) = struct.unpack_from("<Q", elf, 32)
    return (offset, *struct.unpack_from("<HH", elf, 54))


@pytest.fixture
def scaled(stages, program):
    """A captured dispatch of a simple kernel."""
    (digest,) = stages.capture("scale_into", program("idempotent"))
    return digest


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--iterations", "0"), "--iterations"),
        (("--iterations", "many"), "--iterations"),
        (("--warmup", "-1"), "--warmup"),
        (("--timeout", "0"), "--timeout"),
        (("--timeout", "inf"), "--timeout"),
        (("--timeout", "nan"), "--timeout"),
        (("--device", "-1"), "--device"),
        (("--lds", "-1"), "--lds"),
        (("--lds", "5000000000"), "--lds"),
        (("--grid", "4294967296"), "at most 4294967295"),
        (("--grid", "99999999999999999999"), "three numbers"),
        (("--grid", "1,,1"), "three numbers"),
        (("--grid", "64", "--grid-work-items", "128"), "--grid-work-items was given several values: 64, 128"),
        (("--grid", "64", "--grid-blocks", "1"), "exclude each other"),
        (("--block", "65600"), "the maximum is 1024"),
        (("--block", "64,64"), "4096 work-items"),
        (("--variant", "/tmp"), "/tmp"),
        (("--compare", "/nowhere.co"), "/nowhere.co"),
        (("--dump-output", "/dev/null"), "/dev/null"),
        (("--dump-output", "/proc/nowhere"), "/proc/nowhere"),
    ],
)
def test_wrong_usage_is_named_with_the_next_step(stages, scaled, words, said):
    """None of these numbers may be cut to 32 or 16 bits on its way to the device."""
    before = sorted((stages.store / "artifacts").rglob("*"))
    done = stages.replay(scaled, *words).must(2)
    assert said in done.err
    assert "next:" in done.err
    assert sorted((stages.store / "artifacts").rglob("*")) == before


@pytest.mark.parametrize(("length", "reason"), [(0, "it is empty"), (3000, "damaged code object")])
def test_a_code_object_that_is_cut_off_is_named(stages, scaled, variant, tmp_path, length, reason):
    cut = tmp_path / "cut.co"
    cut.write_bytes(variant("idempotent").read_bytes()[:length])
    for option in ("--variant", "--compare"):
        done = stages.replay(scaled, option, cut).must(2)
        assert f"cut.co: {reason}" in done.err
        assert "next:" in done.err


def test_a_code_object_that_is_damaged_inside_is_refused_or_a_result(stages, scaled, variant, tmp_path):
    content = bytearray(variant("idempotent").read_bytes())
    for at in range(len(content) // 3, len(content) // 3 + 400):
        content[at] ^= 0x5A
    (tmp_path / "damaged.co").write_bytes(content)
    done = stages.replay(scaled, "--variant", tmp_path / "damaged.co")
    assert done.code in (0, 2, 3, 4, 6), done.err
    assert "Traceback" not in done.err


def test_a_code_object_that_the_loader_refuses_is_the_users_file(stages, scaled, variant, tmp_path):
    content = bytearray(variant("idempotent").read_bytes())
    headers, size_bytes, number = read_program_headers(content)
    for at in range(headers, headers + number * size_bytes, size_bytes):
        if content[at : at + 4] == PT_LOAD:
            content[at : at + 4] = bytes(4)  # PT_NULL: nothing is loaded
    damaged = tmp_path / "damaged.co"
    damaged.write_bytes(content)
    for words in (("replay", "--variant"), ("replay", "--compare"), ("validate", "--variant")):
        done = stages.run(words[0], scaled, words[1], damaged).must(ExitCode.USAGE)
        assert f"{damaged} cannot be loaded" in done.err
        assert "rebuild it" in done.err


def test_options_that_go_together(stages, scaled, variant):
    same = variant("idempotent")
    words = ("--compare", same, "--flush-cache", "--iterations", 2, "--warmup", 1, "--no-verify")
    for more in ((), ("--hip-launch",)):
        done = stages.replay(scaled, *words, *more).must().manifest
        assert done["matches_golden"] is True
        assert len(done["comparison"]["baseline"]["samples_ns"]) == 2
    shaped = stages.replay(scaled, "--compare", same, "--grid", 256, "--block", 64, "--hip-launch").must()
    assert shaped.manifest["matches_golden"] is None
    assert shaped.manifest["comparison"]["ratio"] > 0


def test_a_fault_is_told_in_words(stages, scaled, variant):
    done = stages.replay(scaled, "--variant", variant("wild_variants", "FAULT")).must(4)
    assert "which is not allowed: no memory is there" in done.manifest["explanation"]
    assert "the kernel accessed 0x" in done.err


def test_a_replay_refuses_a_schedule_that_is_none(stages, program):
    (digest,) = stages.capture("target(", program("endings"), "normal")
    for words in (("replay", digest), ("validate", digest)):
        done = stages.run(*words, KERNCAP_SOFTGPU_SCHEDULE="banana").must(ExitCode.USAGE)
        assert "KERNCAP_SOFTGPU_SCHEDULE=banana" in done.err
