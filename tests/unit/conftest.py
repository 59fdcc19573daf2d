"""What every unit test may use."""

from __future__ import annotations

import pytest
from hypothesis import settings

# Its limit for one example is of wall time: on a busy machine a first call would not keep it.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")


@pytest.fixture
def store(tmp_path):
    """A new store for each test."""
    from kerncap_stages.store import Store

    return Store.open(tmp_path / "store")
