"""A new store for each test."""

from __future__ import annotations

import pytest


@pytest.fixture
def store(tmp_path):
    """A new store for each test."""
    from kerncap_stages.store import Store

    return Store.open(tmp_path / "store")
