"""States of one seed are made of each other: nothing is read, or hashed, that is known."""

from __future__ import annotations

import numpy as np
import pytest
from manifest_examples import capture

from kerncap_stages.digest import MemoryRef
from kerncap_stages.validate.arguments import Span
from kerncap_stages.validate.perturb import states
from kerncap_stages.validate.perturb.fresh import Variety
from kerncap_stages.validate.perturb.slabs import are_same
from kerncap_stages.validate.perturb.start import Start, make_fresh_starts
from kerncap_stages.validate.perturb.states import MadeValues, Perturbation, Trial

COUNT = 100_001
SIZE = 4 * COUNT
OTHERS = [variety for variety in Variety if variety not in (Variety.ALL, Variety.LONE)]


def make_region(store, element_type):
    values = np.random.default_rng(7).integers(1, 1 << 32, COUNT, np.uint32)
    if element_type == "fp32":
        values = np.random.default_rng(7).normal(size=COUNT).astype(np.float32)
    with store.begin_transaction() as transaction:
        pre = MemoryRef.to(transaction.put_memory(values))
        transaction.publish_objects()
    changed = {"size_bytes": SIZE, "pre": pre, "post": pre, "written": None}
    region = capture().regions[0].model_copy(update=changed)
    return capture().model_copy(update={"regions": (region,)}), Span(0, SIZE, element_type)


def make_states(store, captured, part, values):
    """Make all states of a seed: ALL, and then those that begin with it."""
    (region,) = captured.regions
    trial = Trial(region, Perturbation.FRESH_ANY, (part,), seed=11)
    first = Start(store, captured, trial, values=values)
    made = first.perturbed_states[region.base_address]
    others = [
        [Trial(region, trial.perturbation, trial.parts, seed=11, variety=each, all_fresh=made)]
        for each in OTHERS
    ]
    starts = [first, *make_fresh_starts(store, captured, others, values)]
    return [start.perturbed_states[region.base_address] for start in starts]


@pytest.fixture
def reads(store, monkeypatch):
    """Record the memories that are read."""
    read, seen = store.read_memory, []
    monkeypatch.setattr(store, "read_memory", lambda digest: (seen.append(digest), read(digest))[1])
    return seen


@pytest.mark.parametrize("element_type", [None, "fp32", "int32"])
def test_states_that_are_made_of_kept_values_are_those_of_values_that_are_read(store, reads, element_type):
    captured, part = make_region(store, element_type)
    expected = make_states(store, captured, part, None)
    assert len(reads) == 3
    reads.clear()
    assert make_states(store, captured, part, MadeValues()) == expected
    assert reads == [captured.regions[0].pre.digest]


def test_a_state_that_is_the_captured_or_a_known_one_is_not_stored_again(store, monkeypatch):
    captured, part = make_region(store, None)
    stored = []
    kind = type(store.begin_transaction())
    put = kind.put_memory
    monkeypatch.setattr(kind, "put_memory", lambda *words: (stored.append(words), put(*words))[1])
    made = dict(zip([Variety.ALL, *OTHERS], make_states(store, captured, part, MadeValues()), strict=True))
    # Elements of unknown type have no signs, and no zeros come in.
    assert made[Variety.SIGNS] == captured.regions[0].pre
    assert made[Variety.MIRRORED] == made[Variety.ZEROS] == made[Variety.ALL]
    assert len(stored) == len({*made.values()}) - 1 == 3


def test_values_of_another_seed_or_of_much_memory_are_not_taken(store, monkeypatch):
    captured, part = make_region(store, None)
    (region,) = captured.regions
    trial = Trial(region, Perturbation.FRESH_ANY, (part,), seed=11)
    values = MadeValues()
    made = Start(store, captured, trial, values=values).perturbed_states[region.base_address]
    other = Trial(region, trial.perturbation, trial.parts, seed=12, variety=Variety.FEW, all_fresh=made)
    assert values.take(other) is None
    same = Trial(region, trial.perturbation, trial.parts, seed=11, variety=Variety.FEW, all_fresh=made)
    taken = values.take(same)
    assert taken is not None
    assert values.take(same) is None
    monkeypatch.setattr(states, "_MOST_KEPT_BYTES", SIZE - 1)
    values.keep(trial, made, taken)
    assert values.take(same) is None


@pytest.mark.parametrize("size", [0, 1, 8, 1 << 16, (1 << 16) + 8, 300_001])
def test_bytes_are_compared_to_the_last_one(size):
    left = np.random.default_rng(3).integers(0, 256, size, np.uint8)
    right = left.copy()
    assert are_same(left, right)
    for place in {0, size // 2, size - 1} if size else ():
        right[place] ^= 1
        assert not are_same(left, right)
        right[place] ^= 1
