"""The content-addressed store: objects named by the SHA-256 of their payload, artifacts, names, actions.

``docs/store.md`` specifies the folder byte by byte. Objects are read and written by native code; nothing
outside this package touches the folder. What is done with a whole store, or with several, is a function of
``check``, ``collect``, ``usage``, ``copying`` or ``archive``, imported where it is needed: every stage starts
with this package.
"""

from kerncap_stages.store.actions import ActionCache
from kerncap_stages.store.artifacts import ArtifactEntry
from kerncap_stages.store.closure import Closure
from kerncap_stages.store.store import Store
from kerncap_stages.store.transaction import MemoryWriter, Transaction

__all__ = [
    "ActionCache",
    "ArtifactEntry",
    "Closure",
    "MemoryWriter",
    "Store",
    "Transaction",
]
