"""Which replays of the captured kernel later verdicts use."""

from __future__ import annotations

import made_up
import numpy as np
from made_up_replays import COUNT, Bench, double
from manifest_examples import validation
from stores import object_file

from kerncap_stages.digest import KeptRef, ManifestRef, MemoryRef
from kerncap_stages.manifests import dump, load_as
from kerncap_stages.manifests.capture import Capture
from kerncap_stages.manifests.replay import ReplayOutcome
from kerncap_stages.manifests.validation import PerturbedState
from kerncap_stages.store.chunks import read_chunk_list
from kerncap_stages.validate.perturb.states import perturb
from kerncap_stages.validate.replays.baselines import (
    Baselines,
    find_lasting,
    make_kept_finder,
    set_states_aside,
)
from kerncap_stages.validate.replays.replayer import Run


class Replayer:
    """Times out at first, and completes then."""

    outcomes = (ReplayOutcome.TIMED_OUT, ReplayOutcome.COMPLETED)
    replays = 0

    def run(self, _start, _variant):
        self.replays += 1
        return Run(self.outcomes[min(self.replays, 2) - 1], "", {})


def test_a_time_out_from_the_captured_state_serves_one_verdict_alone(store):
    digest = made_up.publish(store, b"code object", "_Z5scalePfS_fi")
    capture = load_as(store, digest, Capture)
    replayer = Replayer()
    kept = {}
    baselines = Baselines(store, capture, replayer, {}, kept.get)
    assert not baselines.run().completed
    assert find_lasting(baselines.kept) == []
    verdict = digest  # any artifact
    baselines.remember(verdict)
    assert store.actions.get(baselines.kept[0].key) is None
    assert make_kept_finder(store)(baselines.kept[0].key) is None

    baselines.forget_passing()  # the next variant's verdict
    assert baselines.kept == []
    assert baselines.run().completed
    assert [each.outcome for each in find_lasting(baselines.kept)] == [ReplayOutcome.COMPLETED]
    baselines.remember(verdict)
    assert store.actions.get(baselines.kept[0].key) == verdict


def test_a_replay_whose_states_are_gone_is_made_again(store):
    bench = Bench(store, double, double)
    bench.judge()
    (kept,) = bench.baselines.kept
    capture = ManifestRef.to(made_up.publish(store, b"code object", "_Z5scalePfS_fi"))
    made = validation().model_copy(
        update={"capture": capture, "variant": None, "precision": None, "baselines": (kept,)}
    )
    with store.begin_transaction() as transaction:
        verdict = transaction.publish(dump(made), "validation", [capture.digest])
    bench.baselines.remember(verdict)
    assert make_kept_finder(store)(kept.key) == kept
    chunk_list = object_file(store, kept.outputs[0].post.digest)
    content = chunk_list.read_bytes()
    chunk_list.unlink()
    assert make_kept_finder(store)(kept.key) is None
    chunk_list.write_bytes(content)
    (chunk,) = (each for each in read_chunk_list(store, kept.pre).digests if each is not None)
    object_file(store, chunk).unlink()
    assert make_kept_finder(store)(kept.key) is None


def test_a_replay_without_one_of_the_states_that_were_changed_together_is_made_again(store):
    bench = Bench(store, double, double)
    bench.judge()
    (kept,) = bench.baselines.kept
    with store.begin_transaction() as transaction:
        other = MemoryRef.to(transaction.put_memory(np.arange(COUNT, dtype=np.float32)))
        transaction.publish_objects()
    states = (PerturbedState(base_address=0, pre=KeptRef.to(other.digest)),)
    kept = kept.model_copy(update={"changed_region": None, "pre": None, "perturbed": states})
    assert kept.pre_states == {0: other}
    capture = ManifestRef.to(made_up.publish(store, b"code object", "_Z5scalePfS_fi"))
    made = validation().model_copy(
        update={"capture": capture, "variant": None, "precision": None, "baselines": (kept,)}
    )
    with store.begin_transaction() as transaction:
        verdict = transaction.publish(dump(made), "validation", [capture.digest])
    store.actions.put(kept.key, verdict)
    assert make_kept_finder(store)(kept.key) == kept
    (chunk,) = read_chunk_list(store, other).digests
    file = object_file(store, chunk)
    content = file.read_bytes()
    file.chmod(0o644)
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert set_states_aside(store, [kept], capture.digest)  # it is damaged
    assert make_kept_finder(store)(kept.key) is None


def test_a_state_is_made_once_for_all_replays_from_it(store, monkeypatch):
    made = []

    def count(store, transaction, trial, *more):
        made.append(trial.perturbation)
        return perturb(store, transaction, trial, *more)

    monkeypatch.setattr("kerncap_stages.validate.perturb.start.perturb", count)
    assert Bench(store, double, double).judge().passed
    assert made == [*dict.fromkeys(made)]
    assert made
