"""States that are another one but for some chunks: written from a replay's files, and changed beforehand."""

import numpy as np
import pytest
from manifest_examples import capture

from kerncap_stages._native import CHUNK_SIZE_BYTES
from kerncap_stages.digest import MemoryRef
from kerncap_stages.store.chunks import read_chunk_list
from kerncap_stages.validate.arguments import Span
from kerncap_stages.validate.perturb.states import Perturbation, Trial, perturb
from kerncap_stages.validate.replays.outputs import (
    find_missing_state,
    publish_staged,
    stage_differing,
    stage_outputs,
)

CHUNKS = 6
SIZE = CHUNKS * CHUNK_SIZE_BYTES - 100  # the last one is short


@pytest.fixture
def before(store):
    data = np.random.default_rng(5).integers(1, 256, SIZE, dtype=np.uint8)
    data[CHUNK_SIZE_BYTES : 2 * CHUNK_SIZE_BYTES] = 0  # a chunk that is not stored
    with store.begin_transaction() as transaction:
        reference = MemoryRef.to(transaction.put_memory(data))
        transaction.publish_objects()
    return reference, data


def of_one_region(reference):
    region = capture().regions[0].model_copy(update={"size_bytes": SIZE, "pre": reference})
    return capture().model_copy(update={"regions": (region,)})


def write_state(folder, region, content, changed, size_bytes=SIZE):
    chunks = [content[i * CHUNK_SIZE_BYTES : (i + 1) * CHUNK_SIZE_BYTES] for i in changed]
    (folder / "changes.bin").write_bytes(b"beside" + b"".join(map(bytes, chunks)))
    line = " ".join(map(str, (region.base_address, size_bytes, len(b"beside"), *changed)))
    (folder / "changes.list").write_text(f"4096 8 0\n{line}\n")


def test_what_a_further_run_left_is_the_first_run_s_state_but_for_what_differs(store, tmp_path, before):
    one = of_one_region(before[0])
    region = one.regions[0]
    first = before[1].copy()
    first[0], first[-1] = 1, 2
    write_state(tmp_path, region, first, [0, CHUNKS - 1])
    (tmp_path / "differing_1").mkdir()
    second = first.copy()
    second[0] = 3
    write_state(tmp_path / "differing_1", region, second, [0])
    with publish_staged(store) as transaction:
        outputs = stage_outputs(transaction, one, tmp_path, None)
        (further,) = stage_differing(transaction, one, outputs, tmp_path, None)
    assert bytes(store.read_memory(further[region.base_address].digest)) == second.tobytes()


def test_a_state_of_another_length_or_without_its_list_is_none(tmp_path, before):
    one = of_one_region(before[0])
    assert find_missing_state(one, tmp_path) == one.regions[0]
    write_state(tmp_path, one.regions[0], bytes(SIZE), [])
    assert find_missing_state(one, tmp_path) is None
    write_state(tmp_path, one.regions[0], bytes(SIZE), [], SIZE - 1)
    assert find_missing_state(one, tmp_path) == one.regions[0]


@pytest.mark.parametrize("changed", [[0], [1, 3], [2], [5], [0, 1, 2, 3, 4, 5], [0, 5]])
def test_chunks_that_a_replay_changed_are_taken_from_its_file(store, tmp_path, before, changed):
    reference, data = before
    after = data.copy()
    written = np.zeros(SIZE, np.uint8)  # what a replay leaves: holes but for the changed chunks
    for index in changed:
        part = slice(index * CHUNK_SIZE_BYTES, min((index + 1) * CHUNK_SIZE_BYTES, SIZE))
        after[part] ^= 7
        written[part] = after[part]
    one = of_one_region(reference)
    write_state(tmp_path, one.regions[0], written, changed)
    with publish_staged(store) as transaction:
        made = stage_outputs(transaction, one, tmp_path, None)[one.regions[0].base_address]
    assert bytes(store.read_memory(made.digest)) == after.tobytes()
    old, new = read_chunk_list(store, reference).digests, read_chunk_list(store, made).digests
    assert [i for i in range(CHUNKS) if old[i] != new[i]] == changed


@pytest.mark.parametrize("written", [((0, 10),), ((3 * CHUNK_SIZE_BYTES - 4, 8),), ((SIZE - 5, 5),), ()])
def test_only_what_is_known_to_be_written_is_nudged(store, before, written):
    reference, data = before
    region = (
        capture()
        .regions[0]
        .model_copy(update={"size_bytes": SIZE, "pre": reference, "post": reference, "written": written})
    )
    with store.begin_transaction() as transaction:
        parts = (Span(0, SIZE, None, ""),)
        made = MemoryRef.to(
            perturb(store, transaction, Trial(region, Perturbation.LIGHT_WRITTEN, parts)).digest
        )
        transaction.publish_objects()
    expected = data.copy()
    for offset, length in written:
        expected[offset : offset + length] ^= 1
    assert bytes(store.read_memory(made.digest)) == expected.tobytes()


@pytest.mark.parametrize(("change", "bits"), [(Perturbation.LIGHT, 1), (Perturbation.STRONG, 0xA5)])
def test_a_region_is_changed_everywhere_that_its_parts_are(store, before, change, bits):
    reference, data = before
    region = capture().regions[0].model_copy(update={"size_bytes": SIZE, "pre": reference, "post": reference})
    first, gap = CHUNK_SIZE_BYTES + 1000, 50
    parts = (Span(0, first, "int8", ""), Span(first + gap, SIZE, "int8", ""))
    with store.begin_transaction() as transaction:
        made = perturb(store, transaction, Trial(region, change, parts))
        transaction.publish_objects()
    expected = data ^ bits
    expected[first : first + gap] = data[first : first + gap]
    assert bytes(store.read_memory(made.digest)) == expected.tobytes()
