"""Code objects out of offload bundles: the one that fits, and words for what is damaged or missing."""

from __future__ import annotations

import struct
import zlib

import pytest
import zstandard

from kerncap_stages.code.offload_bundle import extract_code_object
from kerncap_stages.errors import ArtifactError, Refused

ISA = "amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-"


def bundle(**codes: bytes) -> bytes:
    names = ["host-x86_64-unknown-linux-gnu-", *(f"hipv4-amdgcn-amd-amdhsa--{name}" for name in codes)]
    payloads = [b"", *codes.values()]
    head = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(names))
    at = len(head) + sum(24 + len(name) for name in names)
    for name, payload in zip(names, payloads, strict=True):
        head += struct.pack("<QQQ", at, len(payload), len(name)) + name.encode()
        at += len(payload)
    return head + b"".join(payloads)


TWO = bundle(**{"gfx942": b"newer", "gfx90a": b"mine", "gfx90a:xnack+": b"other"})


def compressed(version: int, method: int, data: bytes = TWO) -> bytes:
    packed = zstandard.compress(data) if method else zlib.compress(data)
    sizes = {1: struct.pack("<I", len(data)), 2: struct.pack("<II", 0, len(data))}
    return b"".join(
        [
            b"CCOB" + struct.pack("<HH", version, method),
            sizes.get(version, struct.pack("<QQ", 0, len(data))),
            bytes(8) + packed,
        ]
    )


@pytest.mark.parametrize(
    "data", [TWO, *(compressed(version, method) for version in (1, 2, 3) for method in (0, 1))]
)
def test_the_code_object_of_the_captured_isa_is_taken(data):
    assert extract_code_object(data, ISA) == b"mine"
    assert extract_code_object(data, "amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack+") == b"other"
    with pytest.raises(Refused, match=r"for gfx1100; its targets: gfx90a, gfx90a:xnack\+, gfx942"):
        extract_code_object(data, "amdgcn-amd-amdhsa--gfx1100")


def test_what_is_no_bundle_stays_as_it_is():
    for data in (b"", b"\x7fELF and more", b"CC", b"//\n// ptx"):
        assert extract_code_object(data, ISA) is data


def test_damage_is_named():
    for whole in (TWO, compressed(2, 1), compressed(3, 0)):
        # Shorter ones do not begin as a bundle, and what is missing of a checksum is not missed.
        for length in range(24, len(whole) - 8):
            with pytest.raises(ArtifactError):
                extract_code_object(whole[:length], ISA)
    with pytest.raises(ArtifactError, match="not supported"):
        extract_code_object(compressed(2, 7), ISA)
    with pytest.raises(ArtifactError, match="it claims to have"):
        extract_code_object(b"CCOB" + struct.pack("<HHQQQ", 3, 0, 0, 1 << 60, 0), ISA)
