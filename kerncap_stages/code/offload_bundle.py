"""Reads offload bundles: files with code objects for several targets, as `hipcc --genco` writes them.

CUDA's counterpart is the fatbin: see ``fatbin``.

    bundle     = "__CLANG_OFFLOAD_BUNDLE__" count:u64 entry*count code*
    entry      = offset:u64 size:u64 length:u64 name:byte*length     hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-
    compressed = "CCOB" version:u16 method:u16 sizes hash:u64 bytes  method 0 is zlib, 1 is zstd
    sizes      = unpacked:u32                                        version 1
               | file:u32 unpacked:u32                               version 2
               | file:u64 unpacked:u64                               version 3

All numbers are little-endian. Clang's documentation of clang-offload-bundler describes the first form; the
second is from LLVM's OffloadBundler.cpp.
"""

from __future__ import annotations

import struct
import zlib

import zstandard

from kerncap_stages.code.fatbin import extract_from_fatbin
from kerncap_stages.code.file_format import BUNDLE_MAGIC, FileFormat, find_format
from kerncap_stages.code.targets import find_processor, parse_target
from kerncap_stages.errors import ArtifactError, Refused

_SIZES = {1: "<I", 2: "<4xI", 3: "<8xQ"}
_ZLIB, _ZSTD = 0, 1
_HASH_BYTES = 8
_MAX_BYTES = 1 << 32


def extract_code_object(data: bytes, isa: str) -> bytes:
    """Return the code object in a bundle or fatbin that runs on an ISA. Other data is returned as it is.

    isa: ``amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-``, or ``sm_90`` for a fatbin.
    Raises Refused if it has no code object for that ISA, ArtifactError if it is damaged.
    """
    if find_format(data) is FileFormat.FATBIN:
        return extract_from_fatbin(data, isa)
    try:
        if find_format(data) is FileFormat.COMPRESSED_BUNDLE:
            data = _unpack(data)
        if find_format(data) is not FileFormat.BUNDLE:
            return data
        entries = _read_entries(data)
    except (struct.error, zlib.error, UnicodeDecodeError) as error:
        raise ArtifactError(f"damaged offload bundle: {error}", hint="compile it again") from error
    # The entry for the host has no GPU target.
    held = {target: code for name, code in entries.items() if (target := parse_target(name)) is not None}
    wanted = parse_target(isa)
    fitting = [] if wanted is None else [target for target in held if target.runs_on(wanted)]
    if not fitting:
        raise Refused(
            f"the offload bundle has no code object for {wanted or isa}; "
            f"its targets: {', '.join(sorted(map(str, held))) or 'none'}",
            hint=f"compile it with --offload-arch={find_processor(isa)}",
        )
    # Of several that fit, the one that names the most features is the most specific.
    return held[max(fitting, key=lambda target: len(target.features))]


def _unpack(data: bytes) -> bytes:
    version, method = struct.unpack_from("<HH", data, 4)
    sizes = _SIZES.get(version)
    if sizes is None or method not in (_ZLIB, _ZSTD):
        raise ArtifactError(
            f"an offload bundle of compression format {version}, method {method}, which is not supported",
            hint="compile it with --no-offload-compress",
        )
    (size_bytes,) = struct.unpack_from(sizes, data, 8)
    packed = data[8 + struct.calcsize(sizes) + _HASH_BYTES :]
    if size_bytes > _MAX_BYTES:
        raise ArtifactError(f"damaged offload bundle: it claims to have {size_bytes} bytes")
    if method == _ZLIB:
        unpacked = zlib.decompressobj().decompress(packed, size_bytes + 1)
    else:
        try:
            with zstandard.ZstdDecompressor().stream_reader(packed) as reader:
                unpacked = reader.read(size_bytes + 1)
        except zstandard.ZstdError as error:
            raise ArtifactError(f"damaged offload bundle: {error}", hint="compile it again") from error
    if len(unpacked) != size_bytes:
        raise ArtifactError("damaged offload bundle: its header has another size", hint="compile it again")
    return unpacked


def _read_entries(data: bytes) -> dict[str, bytes]:
    (count,) = struct.unpack_from("<Q", data, len(BUNDLE_MAGIC))
    at = len(BUNDLE_MAGIC) + 8
    found = {}
    for _ in range(count):
        offset, size_bytes, length = struct.unpack_from("<QQQ", data, at)
        name = data[at + 24 : at + 24 + length].decode()
        at += 24 + length
        if offset + size_bytes > len(data) or len(name) != length:
            raise ArtifactError(
                f"damaged offload bundle: {name} ends outside the file", hint="compile it again"
            )
        found[name] = data[offset : offset + size_bytes]
    return found
