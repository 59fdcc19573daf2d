"""Arrays over several mappings: which of them are tried with other contents."""

import numpy as np
import pytest
from manifest_examples import capture

from kerncap_stages.digest import MemoryRef
from kerncap_stages.manifests.environment import Backend
from kerncap_stages.manifests.memory import MemoryKind
from kerncap_stages.validate.arguments import Pointer
from kerncap_stages.validate.perturb.reach import find_reach

BASE, SIZE = 0x7F0000000000, 4096


@pytest.fixture
def mappings(store):
    """A capture of six mappings without a gap, and a way to point into them."""
    example = capture(Backend.CUDA)
    with store.begin_transaction() as transaction:
        state = MemoryRef.to(transaction.put_memory(np.zeros(SIZE, np.uint8)))
        transaction.publish_objects()
    unchanged = {"size_bytes": SIZE, "pre": state, "post": state, "written": (), "written_size_bytes": 0}
    place = [{"kind": MemoryKind.VMEM, "base_address": BASE + i * SIZE} for i in range(6)]
    regions = tuple(example.regions[0].model_copy(update=unchanged | each) for each in place)
    kernel = example.kernel.model_copy(update={"slots": ()})
    made = example.model_copy(update={"regions": regions, "kernel": kernel, "module_variables": ()})

    def numbers(output, constant, changes=()):
        words = [BASE + output * SIZE + 64, BASE + constant * SIZE]
        start = made.model_copy(
            update={"kernarg": b"".join(word.to_bytes(8, "little") for word in words).hex()}
        )
        for index, change in changes:
            altered = [*start.regions]
            altered[index] = altered[index].model_copy(update=change)
            start = start.model_copy(update={"regions": tuple(altered)})
        pointers = [Pointer("y", words[0], None, is_const=False), Pointer("x", words[1], None, is_const=True)]
        found = find_reach(store, start, pointers).candidates
        return [(region.base_address - BASE) // SIZE for region in found]

    return numbers


def test_what_follows_belongs_to_the_array_up_to_the_next_pointer(mappings):
    assert mappings(output=1, constant=4) == [1, 2, 3]
    assert mappings(output=1, constant=0) == [1, 2, 3, 4, 5]


def test_only_mappings_that_touch_follow(mappings):
    assert mappings(1, 0, [(3, {"kind": MemoryKind.DEVICE_COARSE})]) == [1, 2]
    assert mappings(1, 0, [(3, {"read_only": True})]) == [1, 2]
    assert mappings(1, 0, [(2, {"size_bytes": SIZE - 64})]) == [1, 2]
