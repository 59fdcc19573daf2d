"""Offload bundles: files with the code objects of several targets, as `hipcc --genco` writes them.

CUDA's are fatbins: see ``fatbin``.

    bundle     = "__CLANG_OFFLOAD_BUNDLE__" count:u64 entry*count code*
    entry      = offset:u64 size:u64 length:u64 name:byte*length     hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-
    compressed = "CCOB" version:u16 method:u16 sizes hash:u64 bytes  method 0 is zlib, 1 is zstd
    sizes      = unpacked:u32                                        version 1
               | file:u32 unpacked:u32                               version 2
               | file:u64 unpacked:u64                               version 3

All numbers are little-endian. The first form is in Clang's documentation of clang-offload-bundler, the second
that of LLVM's OffloadBundler.cpp.
"""

from __future__ import annotations

import struct
import zlib

import zstandard

from kerncap_stages.code.fatbin import code_for
from kerncap_stages.code.file_format import BUNDLE_MAGIC, FileFormat, format_of
from kerncap_stages.code.targets import parse_target, processor_of
from kerncap_stages.errors import ArtifactError, Refused

_SIZES = {1: "<I", 2: "<4xI", 3: "<8xQ"}
_ZLIB, _ZSTD = 0, 1
_HASH_BYTES = 8
_MOST_BYTES = 1 << 32


def code_object_for(data: bytes, isa: str) -> bytes:
    """Take the code object for an ISA out of a bundle.

    isa: ``amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-``, or ``sm_90`` for a fatbin. What is no bundle is
    returned as it is. Raises Refused where it holds none for that ISA, ArtifactError for damage.
    """
    if format_of(data) is FileFormat.FATBIN:
        return code_for(data, isa)
    try:
        if format_of(data) is FileFormat.COMPRESSED_BUNDLE:
            data = _unpacked(data)
        if format_of(data) is not FileFormat.BUNDLE:
            return data
        entries = _entries(data)
    except (struct.error, zlib.error, UnicodeDecodeError) as error:
        raise ArtifactError(f"damaged offload bundle: {error}", hint="compile it again") from error
    # The host's entry names no GPU.
    held = {target: code for name, code in entries.items() if (target := parse_target(name)) is not None}
    wanted = parse_target(isa)
    fitting = [] if wanted is None else [target for target in held if target.runs_on(wanted)]
    if not fitting:
        raise Refused(
            f"the offload bundle has no code object for {wanted or isa}; "
            f"its targets: {', '.join(sorted(map(str, held))) or 'none'}",
            hint=f"compile it with --offload-arch={processor_of(isa)}",
        )
    # Of several that fit, the one that names the most features was compiled for the most like this.
    return held[max(fitting, key=lambda target: len(target.features))]


def _unpacked(data: bytes) -> bytes:
    version, method = struct.unpack_from("<HH", data, 4)
    sizes = _SIZES.get(version)
    if sizes is None or method not in (_ZLIB, _ZSTD):
        raise ArtifactError(
            f"an offload bundle of compression format {version}, method {method}, which is not known",
            hint="compile it with --no-offload-compress",
        )
    (size_bytes,) = struct.unpack_from(sizes, data, 8)
    packed = data[8 + struct.calcsize(sizes) + _HASH_BYTES :]
    if size_bytes > _MOST_BYTES:
        raise ArtifactError(f"damaged offload bundle: it would have {size_bytes} bytes")
    if method == _ZLIB:
        unpacked = zlib.decompressobj().decompress(packed, size_bytes + 1)
    else:
        try:
            with zstandard.ZstdDecompressor().stream_reader(packed) as reader:
                unpacked = reader.read(size_bytes + 1)
        except zstandard.ZstdError as error:
            raise ArtifactError(f"damaged offload bundle: {error}", hint="compile it again") from error
    if len(unpacked) != size_bytes:
        raise ArtifactError("damaged offload bundle: it is not as long as it says", hint="compile it again")
    return unpacked


def _entries(data: bytes) -> dict[str, bytes]:
    (count,) = struct.unpack_from("<Q", data, len(BUNDLE_MAGIC))
    at = len(BUNDLE_MAGIC) + 8
    found = {}
    for _ in range(count):
        offset, size_bytes, length = struct.unpack_from("<QQQ", data, at)
        name = data[at + 24 : at + 24 + length].decode()
        at += 24 + length
        if offset + size_bytes > len(data) or len(name) != length:
            raise ArtifactError(
                f"damaged offload bundle: {name} lies beyond its end", hint="compile it again"
            )
        found[name] = data[offset : offset + size_bytes]
    return found
