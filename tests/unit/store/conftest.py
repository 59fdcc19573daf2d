"""A new store for each test."""

from __future__ import annotations

import pytest

from kerncap_stages.store import Store


@pytest.fixture
def store(tmp_path):
    return Store.open(tmp_path / "store")
