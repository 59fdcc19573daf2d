"""Reads text of the operating system from manifests, without importing the models."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kerncap_stages.manifests.base import OsText


def to_os_string(text: OsText) -> str:
    """Undo ``to_os_text``: return the string as Python passes it to the operating system."""
    return text if isinstance(text, str) else bytes.fromhex(text.bytes_hex).decode(errors="surrogateescape")
