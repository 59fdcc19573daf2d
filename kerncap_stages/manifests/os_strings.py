"""Text of the operating system in manifests, read back without the models."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kerncap_stages.manifests.base import OsText


def os_string(text: OsText) -> str:
    """Undo ``os_text``: the string that Python gives to the operating system."""
    return text if isinstance(text, str) else bytes.fromhex(text.bytes_hex).decode(errors="surrogateescape")
