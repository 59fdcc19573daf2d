"""What is put comes back, in frames that any zstd reads."""

from __future__ import annotations

import hashlib
import json
import os
from itertools import pairwise

import numpy as np
import pytest
import zstandard
from stores import manifest, object_file, publish_memory, random_bytes

from kerncap_stages._native import CHUNK_SIZE_BYTES
from kerncap_stages.digest import Digest, MemoryRef
from kerncap_stages.errors import ArtifactNotFound, KerncapError, UsageError
from kerncap_stages.store.chunks import read_chunk_list


def put(store, payload):
    with store.begin_transaction() as transaction:
        digest = transaction.put_bytes(payload)
        transaction.publish(manifest(file=f"file:{digest}"), "capture", [])
    return digest


@pytest.mark.parametrize("size", [0, 1, 1000, 100_000, 3_000_000])
@pytest.mark.parametrize("compressible", [True, False])
def test_get_returns_what_was_put(store, size, compressible):
    payload = (b"kernel " * size)[:size] if compressible else random_bytes(size).tobytes()
    digest = put(store, payload)
    assert digest == hashlib.sha256(payload).hexdigest()
    assert store.get(digest) == payload


def test_object_is_a_zstd_frame_with_content_size(store):
    for payload in (b"abc" * 100_000, random_bytes(300_000).tobytes(), b""):
        frame = object_file(store, put(store, payload)).read_bytes()
        assert zstandard.get_frame_parameters(frame).content_size == len(payload)
        assert zstandard.ZstdDecompressor().decompress(frame, read_across_frames=False) == payload


def test_put_file_has_the_digest_of_the_file(store, tmp_path):
    for size in (0, 1000, 20 << 20):
        file = tmp_path / f"file-{size}"
        file.write_bytes(random_bytes(size).tobytes())
        with store.begin_transaction() as transaction:
            digest = transaction.put_file(file)
            transaction.publish(manifest(file=f"file:{digest}"), "capture", [])
        assert digest == hashlib.sha256(file.read_bytes()).hexdigest()
        assert store.get(digest) == file.read_bytes()


def test_put_file_takes_any_path(store, tmp_path):
    file = tmp_path / os.fsdecode(b"caf\xe9")
    file.write_bytes(b"code object")
    with store.begin_transaction() as transaction:
        assert transaction.put_file(file) == hashlib.sha256(b"code object").hexdigest()
        file.unlink()
        file.mkdir()
        with pytest.raises(UsageError, match="caf\udce9"):
            transaction.put_file(file)


@pytest.mark.parametrize("size", [0, 1, CHUNK_SIZE_BYTES - 1, CHUNK_SIZE_BYTES, 5 * CHUNK_SIZE_BYTES + 17])
def test_memory_comes_back(store, size):
    memory = random_bytes(size)
    memory[CHUNK_SIZE_BYTES : 3 * CHUNK_SIZE_BYTES] = 0
    _, digest = publish_memory(store, memory)
    assert np.array_equal(store.read_memory(digest), memory)
    out = np.ones(size, np.uint8)
    store.read_memory(digest, out)
    assert np.array_equal(out, memory)


def test_memory_of_any_element_type_can_be_put(store):
    memory = np.arange(1000, dtype=np.float64).reshape(10, 100)
    _, digest = publish_memory(store, memory)
    assert store.read_memory(digest).tobytes() == memory.tobytes()


def test_zero_chunks_are_recorded_and_not_stored(store):
    _, digest = publish_memory(store, np.zeros(4 * CHUNK_SIZE_BYTES, np.uint8))
    assert json.loads(store.get(digest))["chunks"] == [None] * 4
    assert len(list((store.root / "objects").glob("*/*"))) == 2  # the list and the manifest


def test_memory_writer_makes_the_same_list_as_put_memory(store):
    memory = random_bytes(3 * CHUNK_SIZE_BYTES + 5)
    _, expected = publish_memory(store, memory)
    with store.begin_transaction() as transaction:
        writer = transaction.open_memory_writer(memory.size)
        for start in range(0, memory.size, 700_001):
            writer.append(memory[start : start + 700_001])
        assert writer.finish() == expected


def test_started_pieces_are_staged_side_by_side_in_their_order(store):
    memory = random_bytes(64 * CHUNK_SIZE_BYTES + 5)
    memory[CHUNK_SIZE_BYTES : 2 * CHUNK_SIZE_BYTES] = 0
    _, expected = publish_memory(store, memory)
    with store.begin_transaction() as transaction:
        writer = transaction.open_memory_writer(memory.size)
        # The second ends in the middle of a chunk: it and what follows are staged at once.
        ends = [0, 20 * CHUNK_SIZE_BYTES, 30 * CHUNK_SIZE_BYTES + 1, 40 * CHUNK_SIZE_BYTES, memory.size]
        pieces = [writer.start(memory[begin:end]) for begin, end in pairwise(ends)]
        for piece in reversed(pieces):
            piece.finish()
            piece.finish()  # of what is finished: nothing
        assert writer.finish() == expected


def test_a_started_piece_holds_its_buffer_until_it_is_finished(store):
    buffer = bytearray(random_bytes(8 * CHUNK_SIZE_BYTES))
    with store.begin_transaction() as transaction:
        piece = transaction.open_memory_writer(len(buffer)).start(buffer)
        with pytest.raises(BufferError):
            buffer.clear()
        piece.finish()
        buffer.clear()


def test_started_pieces_end_with_their_transaction(store):
    transaction = store.begin_transaction()
    with transaction as opened:
        piece = opened.open_memory_writer(32 * CHUNK_SIZE_BYTES).start(random_bytes(32 * CHUNK_SIZE_BYTES))
    with pytest.raises(KerncapError, match="has ended"):
        piece.finish()
    assert list((store.root / "tmp").iterdir()) == []


def test_memory_writer_shares_chunks_of_another_memory_wherever_they_are(store):
    memory = random_bytes(3 * CHUNK_SIZE_BYTES + 1000)
    changed = memory.copy()
    changed[CHUNK_SIZE_BYTES] ^= 1
    with store.begin_transaction() as transaction:
        before = read_chunk_list(transaction, MemoryRef.to(transaction.put_memory(memory))).digests
        writer = transaction.open_memory_writer(memory.size)
        writer.append_same(CHUNK_SIZE_BYTES, before[:1])
        writer.append(changed[CHUNK_SIZE_BYTES : 2 * CHUNK_SIZE_BYTES])
        writer.append_same(CHUNK_SIZE_BYTES + 1000, before[2:])
        assert writer.finish() == transaction.put_memory(changed)
        for size, chunks in ((CHUNK_SIZE_BYTES, before), (CHUNK_SIZE_BYTES, ()), (1000, before[3:])):
            with pytest.raises(UsageError, match="whole chunks"):
                transaction.open_memory_writer(memory.size).append_same(size, chunks)


def test_memory_writer_refuses_more_or_less_than_announced(store):
    with store.begin_transaction() as transaction:
        writer = transaction.open_memory_writer(10)
        with pytest.raises(UsageError, match="more bytes"):
            writer.append(bytes(11))
        writer.append(bytes(9))
        with pytest.raises(UsageError, match="9 of 10"):
            writer.finish()


def test_read_memory_refuses_a_buffer_of_another_size(store):
    _, digest = publish_memory(store, random_bytes(100))
    with pytest.raises(UsageError, match="does not end where"):
        store.read_memory(digest, np.empty(99, np.uint8))


def test_exception_in_a_transaction_leaves_nothing(store):
    def fail_half_way():
        with store.begin_transaction() as transaction:
            transaction.put_memory(random_bytes(3 * CHUNK_SIZE_BYTES))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_half_way()
    assert list((store.root / "tmp").iterdir()) == []
    assert list((store.root / "objects").glob("*/*")) == []
    assert store.list_artifacts() == []


def test_get_names_what_is_missing(store):
    with pytest.raises(ArtifactNotFound, match="0123456789ab"):
        store.get(Digest("0123456789ab" + "0" * 52))
