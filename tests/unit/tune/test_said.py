"""What kc-tune says at the end."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from kerncap_stages.cli.flows import tune
from kerncap_stages.tune.space import DEFINE, Parameter, Space


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (4, "all 4 configurations were tried"),
        (3, "no other configuration was found that the constraints allow"),
    ],
)
def test_a_space_that_was_tried_to_its_end_is_told_from_one_with_constraints(capsys, found, said):
    space = Space((Parameter("A", DEFINE, (1, 2)), Parameter("B", DEFINE, (1, 2))), (), {})
    each = SimpleNamespace(code_digest=None, ratio=None)
    tuned = SimpleNamespace(space=space, found=(each,) * found, best=None, evaluation=None, is_exhausted=True)
    tune._show(tuned, SimpleNamespace(trials=10))
    assert said in capsys.readouterr().err.splitlines()
