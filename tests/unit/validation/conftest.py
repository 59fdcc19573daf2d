"""What tests of verdicts share."""

from __future__ import annotations

import pytest

from kerncap_stages.validation.runs import Baselines


@pytest.fixture
def known(monkeypatch):
    """The baseline's replays, known to later judges as if a validation had kept them."""
    kept = []
    monkeypatch.setattr(
        Baselines, "_known", lambda _, key: next((each for each in kept if each.key == key), None)
    )
    return kept
