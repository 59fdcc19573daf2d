"""What the tests of the store share: another store, and an archive of an artifact."""

from __future__ import annotations

import pytest
from stores import publish_memory, random_bytes

from kerncap_stages._native import CHUNK_SIZE_BYTES
from kerncap_stages.store import Store
from kerncap_stages.store.archive import export


@pytest.fixture
def other(tmp_path):
    return Store.open(tmp_path / "other")


@pytest.fixture
def archive(store, tmp_path):
    publish_memory(store, random_bytes(3 * CHUNK_SIZE_BYTES))
    path = tmp_path / "archive.tar"
    export(store, [store.resolve("@")], path)
    return path
