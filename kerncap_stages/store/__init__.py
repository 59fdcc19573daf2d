"""The content-addressed store: objects named by the SHA-256 of their payload, artifacts, names, actions.

``docs/store.md`` specifies the folder byte by byte. Native code reads and writes the objects; only this
package accesses the folder. Functions for whole stores are in ``check``, ``collect``, ``usage``, ``copying``
and ``archive``. Import them from there: every stage imports this package, so it must import fast.
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
