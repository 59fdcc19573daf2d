"""The names of the states that a variant is judged from."""

from __future__ import annotations

import numpy as np
import pytest
from made_up_replays import COUNT, Bench, double

from kerncap_stages.validate.compare.bounds import Bounds
from kerncap_stages.validate.perturb.fresh import Variety
from kerncap_stages.validate.perturb.start import name_fresh_values
from kerncap_stages.validate.perturb.states import Perturbation

START = np.random.default_rng(0).permutation(COUNT).astype(np.float32)


@pytest.mark.parametrize("bounds", [Bounds(), Bounds(rtol=1e-5)])
def test_each_state_with_fresh_values_has_a_name_of_its_own(store, bounds):
    verdict = Bench(store, double, double, before=START).judge(bounds=bounds, seed=3)
    assert verdict.passed
    names = [each.start for each in verdict.verdicts if each.start is not None]
    assert len(names) == len(verdict.fresh_starts) == len(set(names))
    assert set(names) == {
        "fresh values",
        "fresh values in few elements",
        "fresh values in few other elements",
        "the captured values with other signs",
        "fresh values with other signs",
        "fresh values with more zeros",
    }
    # The captured state and a perturbed one.
    assert [each.perturbed_base is None for each in verdict.verdicts if each.start is None] == [True, False]


def test_milder_values_are_named():
    near, floats = Perturbation.FRESH_NEAR, Perturbation.FRESH_FLOATS
    assert name_fresh_values({near, floats}, Variety.ALL) == "near values"
    assert name_fresh_values({floats}, Variety.MIRRORED) == "fresh floats with other signs"
    assert name_fresh_values({near, Perturbation.FRESH_ANY}, Variety.ALL) == "fresh values"


def test_a_state_in_which_a_variant_fails_is_named(store):
    def fault_for_negative(values):
        if (values < 0).any():
            raise ValueError("out of bounds")
        double(values)

    verdict = Bench(store, double, fault_for_negative, before=START).judge(seed=3)
    assert not verdict.passed
    assert any(reason.startswith("from fresh values the variant faulted") for reason in verdict.reasons)
