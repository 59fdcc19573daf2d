"""The content-addressed store: objects named by the SHA-256 of their payload, artifacts, names, actions.

``docs/store.md`` specifies the folder byte by byte. Objects are read and written by native code; nothing
outside this package touches the folder. Reports of checks and collections are in ``check`` and ``collect``,
which are imported by those who ask for one: every stage starts with this package.
"""

from kerncap_stages.store.actions import ActionCache
from kerncap_stages.store.artifacts import ArtifactEntry
from kerncap_stages.store.closure import Closure
from kerncap_stages.store.store import Store
from kerncap_stages.store.transaction import MemoryWriter, Transaction
from kerncap_stages.store.usage import Usage

__all__ = [
    "ActionCache",
    "ArtifactEntry",
    "Closure",
    "MemoryWriter",
    "Store",
    "Transaction",
    "Usage",
]
