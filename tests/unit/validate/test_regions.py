import hashlib

import numpy as np
import pytest

from kerncap_stages.digest import Digest, MemoryRef
from kerncap_stages.errors import ArtifactError
from kerncap_stages.manifests import to_canonical
from kerncap_stages.store import chunks
from kerncap_stages.store.chunks import read_differing_chunks
from kerncap_stages.validate.compare.bounds import Bounds
from kerncap_stages.validate.compare.regions import States, compare_states, count_changed_bytes

CHUNK = 64


class Objects(dict):
    """Stored payloads in memory: only the reading side of a store is under test here."""

    def get(self, digest, *, verify=True):  # noqa: ARG002
        return self[digest]

    def put(self, payload: bytes) -> Digest:
        digest = Digest(hashlib.sha256(payload).hexdigest())
        self[digest] = payload
        return digest

    def put_memory(self, data: np.ndarray) -> MemoryRef:
        raw = data.view(np.uint8)
        chunks = [raw[start : start + CHUNK] for start in range(0, raw.size, CHUNK)]
        listed = {
            "kind": "memory",
            "schema_version": 1,
            "size_bytes": raw.size,
            "chunk_size_bytes": CHUNK,
            "chunks": [self.put(chunk.tobytes()) if chunk.any() else None for chunk in chunks],
        }
        return MemoryRef.to(self.put(to_canonical(listed)))


@pytest.fixture
def objects():
    return Objects()


def compare(objects, pre, expected, actual, element_type="bytes", bounds=None, *, rounding=False):
    refs = [objects.put_memory(np.asarray(data)) for data in (pre, expected, actual)]
    states = States(*refs, size_bytes=np.asarray(pre).nbytes)
    return compare_states(objects, states, element_type, bounds or Bounds(), rounding=rounding)


def zeros(count=40):
    return np.zeros(count, np.float32)


def test_the_same_outputs_pass(objects):
    expected = zeros()
    expected[3] = 1.5
    result = compare(objects, zeros(), expected, expected)
    assert result.passed
    assert result.written_bytes == 2


def test_a_variant_that_writes_nothing_fails(objects):
    expected = zeros()
    expected[:] = 2.0
    result = compare(objects, zeros(), expected, zeros())
    assert not result.passed
    assert result.difference.failing == result.written_bytes == 40
    assert result.stray_bytes == 0


def test_half_of_the_outputs_is_not_enough(objects):
    expected = zeros()
    expected[:] = 2.0
    actual = expected.copy()
    actual[20:] = 0
    result = compare(objects, zeros(), expected, actual, "fp32", Bounds(atol=1.0))
    assert result.difference.failing == 20
    assert result.difference.worst.offset_bytes == 80


def test_a_write_outside_is_stray_whatever_the_bounds(objects):
    expected = zeros()
    expected[0] = 1.0
    actual = expected.copy()
    actual[30] = 1e-30
    result = compare(objects, zeros(), expected, actual, "fp32", Bounds(atol=1e9))
    assert not result.passed
    assert result.difference.passed
    assert result.stray[0][0] == 120
    assert result.stray_bytes == 4


@pytest.mark.parametrize("place", range(40))
def test_a_rounding_is_one_among_written_elements_or_as_near_as_these_are(objects, place):
    """Two written elements in two chunks, with 15 between them."""
    expected = zeros()
    expected[[10, 26]] = 1.0
    actual = expected.copy()
    actual[place] += 1e-3
    close = compare(objects, zeros(), expected, actual, "fp32", Bounds(atol=1e-2), rounding=True)
    assert close.passed
    far = compare(objects, zeros(), expected, actual, "fp32", Bounds(atol=1e-4), rounding=True)
    assert not far.passed
    assert (far.stray_bytes > 0) is (place not in (10, 26))
    expected[11:26] = 1.0
    actual = expected.copy()
    actual[place] += 1e-3
    dense = compare(objects, zeros(), expected, actual, "fp32", Bounds(atol=1e-2), rounding=True)
    assert dense.passed is (10 <= place <= 26)
    assert dense.stray_bytes == (0 if dense.passed else 4)


def test_bounds_apply_to_whole_elements(objects):
    expected = zeros()
    expected[5] = 1.0  # only the two high bytes change
    actual = zeros()
    actual[5] = np.nextafter(np.float32(1.0), np.float32(2.0))  # the low byte differs
    assert not compare(objects, zeros(), expected, actual).passed
    assert compare(objects, zeros(), expected, actual, "fp32", Bounds(ulp=1)).passed


@pytest.mark.parametrize(("kind", "size"), [("int8", 1), ("int16", 2), ("fp32", 4), ("fp64", 8)])
def test_an_element_is_written_if_any_byte_of_it_is(objects, kind, size):
    expected = np.zeros(48 + size - 1, np.uint8)  # bytes behind the last whole element are none
    expected[[0, size + size // 2, 5 * size - 1]] = 1
    result = compare(objects, np.zeros_like(expected), expected, expected, kind)
    assert result.passed
    assert (result.written_bytes, result.difference.elements) == (3, 3)


def test_objects_that_were_read_last_are_read_once(objects, monkeypatch):
    digests = [objects.put(bytes([number]) * 40) for number in range(3)]
    read = []
    monkeypatch.setattr(chunks, "_MOST_KEPT_BYTES", 80)

    def get(digest, **_):
        read.append(digest)
        return objects[digest]

    monkeypatch.setattr(objects, "get", get)
    recent = chunks.RecentObjects(objects)
    for number in (0, 1, 0, 2, 0, 1):
        assert recent.get(digests[number]) == objects[digests[number]]
    assert read == [digests[number] for number in (0, 1, 2, 1)]


def test_shared_chunks_are_not_read(objects):
    pre = np.arange(64, dtype=np.float32)
    post = pre.copy()
    post[20] += 1
    refs = [objects.put_memory(pre), objects.put_memory(post)]
    offsets = [offset for offset, _ in read_differing_chunks(objects, *refs)]
    assert offsets == [64]
    assert count_changed_bytes(objects, *refs) > 0


def test_heat_shows_where_outputs_differ(objects):
    expected = np.ones(256, np.float32)
    actual = expected.copy()
    actual[-4:] = 2
    result = compare(objects, np.zeros(256, np.float32), expected, actual)
    share = np.flatnonzero(result.heat) / len(result.heat)
    assert share.min() >= 252 / 256
    assert sum(result.heat) == result.differing_bytes


def test_states_of_different_size_are_refused(objects):
    with pytest.raises(ArtifactError, match="differ in size"):
        list(read_differing_chunks(objects, objects.put_memory(zeros(4)), objects.put_memory(zeros(8))))
