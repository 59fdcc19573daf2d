"""docs/store.md is enough for a reader: this one follows the page and uses nothing of the package to read."""

from __future__ import annotations

import hashlib
import json
import tarfile

import numpy as np
import pytest
import zstandard
from stores import manifest, random_bytes

from kerncap_stages.store.archive import export
from kerncap_stages.store.check import check_store
from kerncap_stages.store.collect import collect_garbage


class Reader:
    """What the page says, with zstandard, hashlib and json alone."""

    def __init__(self, root):
        assert (root / "format").read_bytes() == b"kerncap-store 1\n"
        self.root = root

    def payload(self, digest):
        frame = (self.root / "objects" / digest[:2] / digest).read_bytes()
        return self.unpack(digest, frame)

    @staticmethod
    def unpack(digest, frame):
        size = zstandard.get_frame_parameters(frame).content_size
        payload = zstandard.ZstdDecompressor().decompress(
            frame, max_output_size=size, read_across_frames=False
        )
        assert hashlib.sha256(payload).hexdigest() == digest
        return payload

    def latest(self, kind):
        entries = [(json.loads(path.read_bytes()), path.name) for path in (self.root / "artifacts").iterdir()]
        return max((entry["created_at_ns"], name) for entry, name in entries if entry["kind"] == kind)[1]

    def named(self, name):
        return (self.root / "names" / name).read_text().removesuffix("\n")

    def references(self, value):
        """Every string that is a reference as a whole, wherever it stands."""
        if isinstance(value, str):
            kind, _, digest = value.partition(":")
            if kind in ("manifest", "memory", "file") and len(digest) == 64:
                yield kind, digest
        elif isinstance(value, dict):
            for each in value.values():
                yield from self.references(each)
        elif isinstance(value, list):
            for each in value:
                yield from self.references(each)

    def memory(self, digest):
        payload = self.payload(digest)
        listed = json.loads(payload)
        text = json.dumps(listed, sort_keys=True, separators=(",", ":")) + "\n"
        assert text.encode() == payload
        chunk, size = listed["chunk_size_bytes"], listed["size_bytes"]
        assert len(listed["chunks"]) == -(-size // chunk)
        parts = []
        for number, name in enumerate(listed["chunks"]):
            length = min(chunk, size - number * chunk)
            part = bytes(length) if name is None else self.payload(name)
            assert len(part) == length
            parts.append(part)
        return b"".join(parts)


@pytest.fixture
def content(store):
    """An artifact with a parent, a file and a memory of noise, zeros, text and a short last chunk."""
    memory = np.concatenate(
        [
            random_bytes(1 << 20),
            np.zeros(2 << 20, np.uint8),
            np.frombuffer(b"kernel " * 300_000, np.uint8),
            random_bytes(777, seed=1),
        ]
    )
    file = b"\x7fELF code object" * 1000
    with store.begin_transaction() as transaction:
        parent = transaction.publish(manifest("profile", note="ümlaut \u2603"), "profile")
        digests = {"file": f"file:{transaction.put_bytes(file)}"}
        digests["deep"] = [{"memory": f"memory:{transaction.put_memory(memory)}"}]
        text = manifest("capture", parents=[f"manifest:{parent}"], **digests)
        artifact = transaction.publish(text, "capture", [parent])
    store.name("kept", artifact)
    return artifact, parent, file, memory.tobytes(), text


def test_a_reader_made_from_the_page_reads_a_store(store, content):
    artifact, parent, file, memory, text = content
    reader = Reader(store.root)
    assert reader.latest("capture") == reader.named("kept") == artifact
    payload = reader.payload(artifact)
    assert payload == text
    found = dict(reader.references(json.loads(payload)))
    assert found["manifest"] == parent
    assert json.loads(reader.payload(parent))["note"] == "ümlaut \u2603"
    assert reader.payload(found["file"]) == file
    assert reader.memory(found["memory"]) == memory


def test_a_reader_made_from_the_page_reads_an_archive(store, content, tmp_path):
    artifact, _, file, _, text = content
    export(store, [artifact], tmp_path / "archive")
    with tarfile.open(tmp_path / "archive") as archive:
        members = archive.getmembers()
        assert members[0].name == "kerncap-archive.json"
        listed = json.loads(archive.extractfile(members[0]).read())
        assert listed["exported"] == [artifact]
        names = [member.name.split("/")[2] for member in members[1:]]
        assert names == sorted(names)
        payloads = {
            name: Reader.unpack(name, archive.extractfile(member).read())
            for name, member in zip(names, members[1:], strict=True)
        }
    assert payloads[artifact] == text
    assert file in payloads.values()


def test_what_another_writer_makes_from_the_page_is_read(store):
    """Frames of another zstd, chunks of another size, a list entry written by hand."""
    memory = random_bytes(10_000).tobytes() + bytes(5000)

    def put(payload, level):
        digest = hashlib.sha256(payload).hexdigest()
        path = store.root / "objects" / digest[:2] / digest
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(zstandard.ZstdCompressor(level=level, write_checksum=True).compress(payload))
        return digest

    pieces = [memory[start : start + 4096] for start in range(0, len(memory), 4096)]
    chunks = [put(piece, 19) if any(piece) else None for piece in pieces]
    listed = {"chunk_size_bytes": 4096, "chunks": chunks, "kind": "memory"}
    listed |= {"schema_version": 1, "size_bytes": len(memory)}
    text = json.dumps(listed, sort_keys=True, separators=(",", ":")) + "\n"
    artifact = put(manifest("capture", memory=f"memory:{put(text.encode(), 3)}"), 1)
    entry = '{"created_at_ns":1795229152594606980,"kind":"capture","parents":[]}\n'
    (store.root / "artifacts" / artifact).write_text(entry)
    assert store.resolve("@capture") == artifact
    assert check_store(store).ok
    assert store.read_memory(put(text.encode(), 3)).tobytes() == memory
    assert collect_garbage(store).removed_objects == 0
