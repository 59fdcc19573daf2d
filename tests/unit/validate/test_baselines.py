"""Which replays of the captured kernel later verdicts use."""

from __future__ import annotations

import made_up

from kerncap_stages.manifests import load_as
from kerncap_stages.manifests.capture import Capture
from kerncap_stages.manifests.replay import ReplayOutcome
from kerncap_stages.validate.baselines import Baselines, find_lasting, make_kept_finder
from kerncap_stages.validate.replayer import Run


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
