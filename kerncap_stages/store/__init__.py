"""The content-addressed store: objects named by the SHA-256 of their payload, artifacts, names, actions.

``docs/store.md`` specifies the folder byte by byte. Objects are read and written by native code; nothing
outside this package touches the folder.
"""

from kerncap_stages.store.actions import ActionCache
from kerncap_stages.store.artifacts import ArtifactEntry
from kerncap_stages.store.check import CheckReport, Fault
from kerncap_stages.store.closure import Closure
from kerncap_stages.store.collect import GcReport
from kerncap_stages.store.store import Store
from kerncap_stages.store.transaction import MemoryWriter, Transaction
from kerncap_stages.store.usage import Usage

__all__ = [
    "ActionCache",
    "ArtifactEntry",
    "CheckReport",
    "Closure",
    "Fault",
    "GcReport",
    "MemoryWriter",
    "Store",
    "Transaction",
    "Usage",
]
